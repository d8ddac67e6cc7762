"""The corpus: reading it from the caller's files, and the memory-mapped copy that an index keeps."""

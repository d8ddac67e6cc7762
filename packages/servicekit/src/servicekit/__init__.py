"""FastAPI plumbing shared by the four services; it knows nothing of search."""

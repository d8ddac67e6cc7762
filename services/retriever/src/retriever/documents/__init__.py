"""Documents: from files to passages. They are found and copied, read in a process of their own, split, and kept once."""

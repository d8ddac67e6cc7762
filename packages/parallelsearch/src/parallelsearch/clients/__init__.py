"""The only HTTP clients of the project, and the protocols that the rest is written against."""

"""An index on disk: its manifest, how it is built and published, and how it is searched."""

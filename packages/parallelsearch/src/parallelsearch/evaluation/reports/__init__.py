"""Reports of a run or of a comparison: JSON for machines, Markdown for repositories, one self-contained HTML page for readers."""

"""The table of architectures: a row for each, and a column for each property that differs."""

"""The boards of a run: which of them take part, and how they measure candidates."""

"""The boards of a run: measuring candidates on them, and dropping boards that mislead."""

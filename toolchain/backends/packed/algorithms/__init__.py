"""The ways to compute contractions, and which of them is chosen."""

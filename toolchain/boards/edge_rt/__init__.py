"""`edge-rt` on a board: put there, asked about it."""

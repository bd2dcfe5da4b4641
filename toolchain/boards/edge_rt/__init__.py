"""`edge-rt` on a board: installing it, and reading its answers about the board."""

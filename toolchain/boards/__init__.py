"""Boards: where they are, how to reach them, and the program that runs on them."""

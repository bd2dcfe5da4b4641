"""Runs a bundle on a board: with the user's data, to compare its outputs, or to time it."""

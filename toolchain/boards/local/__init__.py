"""This host as a board."""

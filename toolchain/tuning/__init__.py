"""Measures candidates for each task of a network and stores their times."""

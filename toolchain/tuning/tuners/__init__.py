"""Searches that know any space."""

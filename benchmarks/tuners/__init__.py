"""Tuners against each other, on spaces that are enumerated once and replayed."""

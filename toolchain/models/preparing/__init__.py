"""Prepares a file's graph: applies the user's shapes, constants and outputs."""

"""Reads sources as graphs with their weights inside."""

"""Imports of libraries that need preparation, and Python's search path for modules."""

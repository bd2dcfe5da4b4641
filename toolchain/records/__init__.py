"""The store of measured candidates."""

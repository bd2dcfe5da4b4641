"""Libraries that must be imported in a certain way."""

"""The ways of making code."""

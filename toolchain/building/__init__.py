"""Builds a bundle from a model: reference, lower, decide, compile, link, gate, bundle."""

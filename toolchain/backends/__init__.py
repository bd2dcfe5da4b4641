"""Backends: the ways of generating code for a fused network."""

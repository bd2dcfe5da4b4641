"""Releases in an OCI registry: one manifest with two layers, the bundle and its envelope."""

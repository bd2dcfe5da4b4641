"""Emulated boards: systems of other architectures that run on this host."""

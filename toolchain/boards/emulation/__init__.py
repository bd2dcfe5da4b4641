"""Emulated boards: other architectures' systems on this host."""

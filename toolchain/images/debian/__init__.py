"""Debian systems: the base of images, and the root file systems of emulated boards."""

"""Numpy on the host as a device: a plugin of the edge-toolchain."""

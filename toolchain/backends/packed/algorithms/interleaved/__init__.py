"""Transposed convolutions, computed as convolutions whose outputs interleave."""

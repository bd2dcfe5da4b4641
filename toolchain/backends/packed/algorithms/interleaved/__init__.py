"""Transposed convolutions, as convolutions whose outputs interleave."""

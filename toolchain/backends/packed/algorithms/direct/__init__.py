"""Convolutions as they are written: sums over input channels and taps."""

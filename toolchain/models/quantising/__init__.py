"""Quantises networks to 8-bit integers with power-of-two scales, and measures the loss."""

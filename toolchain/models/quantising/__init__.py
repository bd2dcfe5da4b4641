"""Quantises networks to 8-bit integers, and measures the loss."""

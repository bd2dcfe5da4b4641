"""Bounds checks of indices and divisors while a network computes."""

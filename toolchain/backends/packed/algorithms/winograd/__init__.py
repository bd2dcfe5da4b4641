"""Winograd convolution: fewer multiplications, by transforming inputs, weights and outputs."""

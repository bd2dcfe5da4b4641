"""Convolutions of fewer multiplications, by transforms of inputs, weights and outputs."""

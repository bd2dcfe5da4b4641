"""Integers whose scales are powers of two, for accelerators that requantise by shifts."""

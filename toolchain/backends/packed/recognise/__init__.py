"""Reads from TensorIR what functions compute."""

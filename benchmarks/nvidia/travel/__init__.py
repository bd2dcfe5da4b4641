"""Runs on the machine with the GPU: Python 3.9 or newer and its standard library; peers need PyTorch."""

"""Imports ONNX graphs to Relax, and refuses those that cannot be compiled."""

"""Imports ONNX graphs to Relax."""

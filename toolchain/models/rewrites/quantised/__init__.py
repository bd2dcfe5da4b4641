"""Operators on quantised values, as sums of integers in float32, rounded as onnxruntime rounds them."""

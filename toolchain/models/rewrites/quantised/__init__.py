"""Rewrites quantised operators as exact integer sums in float32, rounded as onnxruntime rounds them."""

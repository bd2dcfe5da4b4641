"""Quantises networks to 8-bit integers, and measures the loss.

`affine_*` has scales of any size and zero points, for CPUs, and writes an ONNX graph in QDQ form. `shift_*`
has scales that are powers of two, for accelerators that requantise by shifts.
"""

"""Integers with scales of any size and zero points, for CPUs, written as an ONNX graph in QDQ form."""

"""What functions compute, read from TensorIR."""

"""From an ONNX graph to Relax."""

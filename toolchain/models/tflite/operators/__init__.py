"""The rules that translate TensorFlow Lite's operators to ONNX, by the schema's names."""

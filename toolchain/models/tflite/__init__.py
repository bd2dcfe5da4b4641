"""Reads TensorFlow Lite files (`.tflite`) as ONNX graphs; quantised ones in QDQ form."""

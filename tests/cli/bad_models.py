"""Networks that no command can use, and what is said of them. The fixture `files` makes them."""

from __future__ import annotations

MODELS: list[tuple[str, int, list[str]]] = [
    ("nosuch", 2, ["'nosuch'", "zoo:mobilenet"]),
    ("zoo:nosuch", 2, ["nosuch", "zoo:mobilenet"]),
    ("nosuch.onnx", 2, ["nosuch.onnx"]),
    ("truncated.onnx", 2, ["truncated.onnx"]),
    ("text.onnx", 2, ["text.onnx"]),
    ("empty.onnx", 2, ["empty.onnx"]),
    ("external.onnx", 2, ["external.onnx", "weights.bin"]),
    ("program.pt2", 2, ["program.pt2", "torch.onnx.export(torch.export.load("]),
    (".", 2, [". is a folder"]),
]

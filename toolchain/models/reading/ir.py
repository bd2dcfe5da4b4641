"""Versions of the file format: a newer one than onnxruntime takes is declared as one that it does."""

from __future__ import annotations

import onnx

from toolchain.errors import UsageError

NEWEST = 13
"""The newest that the pinned onnxruntime takes; it refuses a file of a newer one, whatever is in it."""


def declare_known_ir(model: onnx.ModelProto, origin: str) -> None:
    """Lower the IR version of `model` to one that onnxruntime takes.

    Each version since has added types of tensors alone: who uses one of those is told so by its name.

    Raises
    ------
    UsageError
        Nobody knows yet what such a file may hold.
    """
    if not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise UsageError(
            f"{origin} has version {model.ir_version} of ONNX's file format (ir_version); known are 1 to "
            f"{onnx.IR_VERSION}",
            f"export it again with an older onnx; or, if it holds nothing newer, in Python: "
            f"m = onnx.load(FILE); m.ir_version = {NEWEST}; onnx.save(m, FILE)",
        )
    model.ir_version = min(model.ir_version, NEWEST)

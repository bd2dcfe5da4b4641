"""Lowers the version of the file format to one that onnxruntime accepts."""

from __future__ import annotations

import onnx

from toolchain.errors import UsageError

NEWEST = 13
"""The newest version that the pinned onnxruntime accepts; it refuses newer files, whatever their content."""


def declare_known_ir(model: onnx.ModelProto, origin: str) -> None:
    """Lower the IR version of `model` to one that onnxruntime accepts.

    Later versions only added tensor types; an error about such a type names it.

    Raises
    ------
    UsageError
        The version is newer than the installed onnx, so its meaning is unknown.
    """
    if not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise UsageError(
            f"{origin} has version {model.ir_version} of ONNX's file format (ir_version); known are 1 to "
            f"{onnx.IR_VERSION}",
            f"export it again with an older onnx; or, if it holds nothing newer, in Python: "
            f"m = onnx.load(FILE); m.ir_version = {NEWEST}; onnx.save(m, FILE)",
        )
    model.ir_version = min(model.ir_version, NEWEST)

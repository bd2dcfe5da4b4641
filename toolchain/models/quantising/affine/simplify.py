"""Brings a float graph to the form in which most of it can be integers."""

from __future__ import annotations

import onnx
from onnx import version_converter

from toolchain.errors import UsageError
from toolchain.foreign import first_line
from toolchain.models.folding.fold import fold
from toolchain.models.names import Names
from toolchain.models.preparing.batch_norms import fold_batch_norms
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.padding import with_explicit_pads
from toolchain.models.quantising.affine.index import Index
from toolchain.models.quantising.affine.rules import rules_for
from toolchain.models.rewrites.graph import apply_rules
from toolchain.models.walk import opset_of

OPSET = 13
"""The first operator set whose DequantizeLinear knows a scale for each channel."""


def simplified(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Return a static, folded graph with inferred shapes in operator set 13 or newer, batch norms folded.

    Batch norms are folded before anything is rounded: else a convolution is rounded before its batch norm,
    and once more behind it.

    Raises
    ------
    UsageError
        onnx cannot convert an older graph.
    """
    new = with_explicit_pads(infer_shapes(_with_opset(model, origin), origin))
    plain = infer_shapes(fold_batch_norms(new), origin)
    rewritten = apply_rules(plain, rules_for(Index(plain)), origin)
    if rewritten is plain:
        return plain
    return infer_shapes(_with_unlike_names(fold(rewritten, origin).model), origin)


def _with_unlike_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rename nodes in place where several replace one: onnxruntime wants names that differ."""
    names = Names()
    for node in model.graph.node:
        node.name = names.free(node.name) if node.name else ""
    return model


def _with_opset(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    if opset_of(model) >= OPSET:
        return model
    try:
        converted = version_converter.convert_version(model, OPSET)
    except Exception as error:  # its C++ side has no error class of its own
        raise UsageError(
            f"{origin}: --dtype int8: it cannot be brought to operator set {OPSET}, the first with scales by "
            f"channel: {first_line(error)}",
            f"export it with opset_version={OPSET} or newer",
        ) from error
    return fold(converted, origin).model  # it makes nodes of attributes

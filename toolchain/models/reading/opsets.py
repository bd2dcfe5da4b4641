"""Declares graphs with too new operator sets under the newest set that onnxruntime supports."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import defs

from toolchain.models.walk import all_nodes

NEWEST = 26
"""The newest set that the pinned onnxruntime accepts; it refuses newer files, whatever their content."""

MORE_TYPES = frozenset(
    {
        *(
            "BitShift",
            "Cast",
            "Celu",
            "Compress",
            "DepthToSpace",
            "DequantizeLinear",
            "Einsum",
            "Mod",
            "OneHot",
        ),
        *("QuantizeLinear", "Range", "ReduceLogSum", "ReduceLogSumExp", "ReverseSequence", "SpaceToDepth"),
        "Unique",
    }
)
"""Operators whose newer versions take other types or one attribute more, and else are what they were.

Of what is new onnxruntime says by name that it does not know it; what it computes under the older set of
onnx's own tests of these operators is what those expect.
"""


def with_known_opsets(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` declared under operator sets that onnxruntime supports; itself if it already is."""
    sets = for_onnxruntime(model.opset_import, all_nodes(model.graph))
    if sets == list(model.opset_import):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.opset_import[:]
    copy.opset_import.extend(sets)
    return copy


def for_onnxruntime(
    opsets: Iterable[onnx.OperatorSetIdProto], nodes: Iterable[onnx.NodeProto]
) -> list[onnx.OperatorSetIdProto]:
    """Return the operator sets to declare, so that onnxruntime reads these nodes with the same meaning.

    That is the newest set it supports if no node has changed since; else `opsets`, which onnxruntime refuses.
    """
    sets = list(opsets)
    standard = next((each for each in sets if each.domain in ("", "ai.onnx")), None)
    if standard is None or standard.version <= NEWEST:
        return sets
    for node in nodes:
        if node.domain in ("", "ai.onnx") and node.op_type not in MORE_TYPES:
            try:
                since = defs.get_schema(node.op_type, standard.version).since_version
            except defs.SchemaError:
                return sets
            if since > NEWEST:
                return sets
    lowered = onnx.OperatorSetIdProto(domain=standard.domain, version=NEWEST)
    return [lowered if each is standard else each for each in sets]

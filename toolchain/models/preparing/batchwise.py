"""Rewrites recurrent nodes whose first axis is the batch (`layout` 1) to layout 0, the only supported one."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import helper

from toolchain.models.names import Names
from toolchain.models.recurrent.spec import GATES
from toolchain.models.walk import all_graphs, all_names

# Layout 0 of X and Y_h as layout 1 has it, and back: (batch, steps, size) and (batch, directions, units).
_SWAPPED = (1, 0, 2)
# Y of layout 1 from that of layout 0: (steps, directions, batch, units) to (batch, steps, directions, units).
_OUTPUT = (2, 0, 1, 3)
_BATCHED_INPUTS = (0, 5, 6)  # X, initial_h, initial_c


def steps_first(model: onnx.ModelProto) -> None:
    """Insert transposes around the model's recurrent nodes of layout 1, in place."""
    names: Names | None = None
    for graph in all_graphs(model.graph):
        if not any(map(_batchwise, graph.node)):
            continue
        if names is None:
            names = Names(all_names(model.graph))
        nodes = [each for node in graph.node for each in _rewritten(node, names)]
        del graph.node[:]
        graph.node.extend(nodes)


def _batchwise(node: onnx.NodeProto) -> bool:
    return (
        node.op_type in GATES
        and node.domain in ("", "ai.onnx")
        and any(attribute.name == "layout" and attribute.i == 1 for attribute in node.attribute)
    )


def _rewritten(node: onnx.NodeProto, names: Names) -> Iterator[onnx.NodeProto]:
    if not _batchwise(node):
        yield node
        return
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    made.attribute.extend(attribute for attribute in node.attribute if attribute.name != "layout")
    for place in _BATCHED_INPUTS:
        if place < len(node.input) and node.input[place]:
            made.input[place] = names.free(f"{node.input[place]}_steps_first")
            yield helper.make_node("Transpose", [node.input[place]], [made.input[place]], perm=_SWAPPED)
    for place, name in enumerate(node.output):
        if name:
            made.output[place] = names.free(f"{name}_steps_first")
    yield made
    for place, name in enumerate(node.output):
        if name:
            order = _SWAPPED if place else _OUTPUT
            yield helper.make_node("Transpose", [made.output[place]], [name], perm=order)

"""Separates problems of a graph with open shapes that fixed shapes may solve from those they cannot."""

from __future__ import annotations

import onnx

from toolchain.models.folding.finish import COUNTING
from toolchain.models.folding.fold import SPECIAL
from toolchain.models.folding.result import Folded
from toolchain.models.preparing.cutting import read_by
from toolchain.models.walk import input_values

Unsupported = dict[str, list[onnx.NodeProto]]

_SHAPES = frozenset({"Shape", "Size"})


def without_undecided(
    folded: Folded, unsupported: Unsupported
) -> tuple[Folded, Unsupported, list[onnx.NodeProto]]:
    """Return the problems that remain whatever the open shapes are, and the nodes that depend on the shapes.

    Nodes computed from shapes alone are folded away once the shapes are given; lists of tensors, loops and
    branches may be.

    Parameters
    ----------
    folded
        The folded graph with open shapes, and its problems.
    unsupported
        Nodes that cannot be imported, by operator; those inside other nodes are returned unchanged.
    """
    graph = folded.model.graph
    data = _depends_on_data(graph)
    certain = [
        each for each in folded.problems if each.node.op_type in COUNTING and read_by(each.node) & data
    ]
    undecided = [each.node for each in folded.problems if each not in certain]
    outermost = {name for node in graph.node for name in node.output}
    left: Unsupported = {}
    for operator, nodes in unsupported.items():
        for node in nodes:
            if outermost.isdisjoint(node.output) or (operator not in SPECIAL and read_by(node) & data):
                left.setdefault(operator, []).append(node)
            else:
                undecided.append(node)
    return Folded(folded.model, certain), left, undecided


def _depends_on_data(graph: onnx.GraphProto) -> set[str]:
    """Return the names of tensors whose values depend on the values of inputs, not only on their shapes."""
    data = {value.name for value in input_values(graph)}
    for node in graph.node:
        if node.op_type not in _SHAPES and read_by(node) & data:
            data.update(name for name in node.output if name)
    return data

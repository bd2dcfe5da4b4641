"""What cannot be said of a graph whose inputs have open shapes."""

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
    """Return what cannot be compiled whatever the open shapes are, and the nodes that they decide about.

    What is computed from shapes alone is folded away once they are given; lists of tensors, loops and
    branches may be.

    Parameters
    ----------
    folded
        With open shapes, and the problems that folding met.
    unsupported
        Nodes that cannot be imported, by operator; those inside of others are left as they are.
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
    """Return the names of tensors whose values depend on those of inputs, and not on their shapes alone."""
    data = {value.name for value in input_values(graph)}
    for node in graph.node:
        if node.op_type not in _SHAPES and read_by(node) & data:
            data.update(name for name in node.output if name)
    return data

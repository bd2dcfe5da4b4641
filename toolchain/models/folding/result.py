"""The result of folding."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx


@dataclass(frozen=True)
class Problem:
    """A node that cannot be compiled because its result or its shape depends on the data.

    Attributes
    ----------
    node
        The node in the folded graph.
    reason
        The predicate of a sentence whose subject is the node.
    """

    node: onnx.NodeProto
    reason: str


@dataclass(frozen=True)
class Folded:
    """A folded graph.

    Attributes
    ----------
    model
        The graph, with the types of its tensors as far as they are known.
    problems
        The nodes that cannot be compiled, in the order of the graph.
    """

    model: onnx.ModelProto
    problems: list[Problem] = field(default_factory=list)

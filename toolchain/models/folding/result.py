"""What folding gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx


@dataclass(frozen=True)
class Problem:
    """A node whose result, or its shape, depends on the data in a way that cannot be compiled.

    Attributes
    ----------
    node
        In the folded graph.
    reason
        The rest of a sentence that begins with the node.
    """

    node: onnx.NodeProto
    reason: str


@dataclass(frozen=True)
class Folded:
    """A folded graph.

    Attributes
    ----------
    model
        With the types of all its tensors, as far as they follow.
    problems
        What keeps it from being compiled, in the order of its nodes.
    """

    model: onnx.ModelProto
    problems: list[Problem] = field(default_factory=list)

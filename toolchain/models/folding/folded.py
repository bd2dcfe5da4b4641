"""The result of folding, and the scopes of names while inner graphs are inlined."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx

# Maps names of inner graphs to names in the folded graph while branches and loops are written flat.


class Scope:
    """Maps the names of one graph to names in the folded graph.

    Parameters
    ----------
    outer
        The enclosing scope, whose names are visible here; None for the whole model.
    """

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, str] = {}

    def find(self, name: str) -> str:
        """Return the name in the folded graph; the same name if no mapping is known."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return name


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

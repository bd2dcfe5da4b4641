"""Decides which nodes of a float graph compute with integers, and where values are rounded."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx

from toolchain.models.quantising.affine.index import (
    ANCHORS,
    FUNCTIONS,
    JOINING,
    POOLS,
    ROUNDS,
    WEIGHTED,
    Index,
    IntegerRole,
    limits,
    moves,
    refusal,
)
from toolchain.models.walk import attributes_of, node_name

_UNSAID = frozenset({"Cast", "Concat", "Identity"})
"""Operators that compute nothing, so that nobody asks why they do it with floats."""


@dataclass(frozen=True)
class IntegerPlan:
    """Which nodes compute with integers.

    Attributes
    ----------
    roles
        Position of a node that computes with integers -> its role.
    results
        Position of a node that rounds -> the tensor that its integers stand for: its output, or that of the
        Relu or Clip behind it.
    rounded
        The tensors that have integers.
    left
        Name of a node that computes with floats -> why.
    """

    roles: dict[int, IntegerRole]
    results: dict[int, str]
    rounded: frozenset[str]
    left: dict[str, str]


def plan_integers(index: Index) -> IntegerPlan:
    """Return the plan for a graph.

    Convolutions and dense layers with stored weights are computed with integers wherever they are. Other
    nodes are where they lie between such layers, so that values need not become floats on the way: rounding
    what only float layers read would lose accuracy and gain nothing.
    """
    found = _Candidates(index)
    roles = found.needed()
    results = {
        at: index.nodes[at].output[0]
        for at, role in roles.items()
        if role in ROUNDS or role is IntegerRole.CONCATENATION
    }
    for at, role in roles.items():
        if role is IntegerRole.LIMIT:
            results[index.makers[index.nodes[at].input[0]]] = index.nodes[at].output[0]
    rounded = set(results.values())
    for at, role in roles.items():
        node = index.nodes[at]
        if role is IntegerRole.MOVE:
            rounded.update(name for name in node.output if name)
        if role in ANCHORS or role is IntegerRole.MOVE:
            rounded.add(node.input[0])
        elif role not in (IntegerRole.FUNCTION, IntegerRole.LIMIT):
            rounded.update(index.active(node))
    for at, node in enumerate(index.nodes):
        if at not in roles and node_name(node) not in found.left and (why := _why_left(node, index, found)):
            found.left[node_name(node)] = why
    return IntegerPlan(roles, results, frozenset(rounded), found.left)


@dataclass
class _Candidates:
    """Nodes that could compute with integers, whether or not that gains anything."""

    index: Index
    roles: dict[int, IntegerRole] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    """Tensor computed by functions -> the tensor of integers that they begin with."""
    left: dict[str, str] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for at, node in enumerate(self.index.nodes):
            role = self._role(node)
            if role is not None:
                self.roles[at] = role
                self._made.update(node.output)

    def needed(self) -> dict[int, IntegerRole]:
        """Return the candidates whose results reach a convolution or a dense layer."""
        wanted: set[str] = set()
        kept: dict[int, IntegerRole] = {}
        for at, role in reversed(self.roles.items()):
            node = self.index.nodes[at]
            limits_anchor = (
                role is IntegerRole.LIMIT and self.roles[self.index.makers[node.input[0]]] in ANCHORS
            )
            if role in ANCHORS or limits_anchor or not wanted.isdisjoint(node.output):
                kept[at] = role
                wanted.update(node.input[:1] if role in ANCHORS else self.index.active(node))
        return dict(sorted(kept.items()))

    def _role(self, node: onnx.NodeProto) -> IntegerRole | None:
        index = self.index
        active = index.active(node)
        if node.op_type in WEIGHTED and node.domain in ("", "ai.onnx"):
            reason = refusal(node, index)
            if reason:
                self.left[node_name(node)] = reason
            return None if reason else WEIGHTED[node.op_type]
        floats = (*active, *(name for name in node.output if name))
        if not active or node.domain not in ("", "ai.onnx") or not all(map(index.is_float, floats)):
            return None
        made = [name in self._made for name in active]
        if node.op_type == "Concat":
            return IntegerRole.CONCATENATION if any(made) else None
        if not all(made):
            return None
        if self._implied(node):
            return IntegerRole.LIMIT
        if moves(node, index):
            return IntegerRole.MOVE
        if node.op_type in POOLS:
            own = attributes_of(node)
            return (
                None
                if own.get("ceil_mode", 0) or set(own.get("dilations", (1,))) != {1}
                else IntegerRole.POOL
            )
        return self._pointwise(node, active)

    def _pointwise(self, node: onnx.NodeProto, active: list[str]) -> IntegerRole | None:
        roots = {self.roots.get(name, name) for name in active}
        (root, *more) = roots
        if not more and node.op_type in FUNCTIONS and len(node.output) == 1:
            if self.index.shape(root) != self.index.shape(node.output[0]):
                return None
            self.roots[node.output[0]] = root
            return IntegerRole.FUNCTION
        return JOINING.get(node.op_type) if len(active) == len(node.input) == 2 else None

    def _implied(self, node: onnx.NodeProto) -> bool:
        """Whether a node limits values that are about to be rounded, and nothing else reads them."""
        maker = self.index.makers.get(node.input[0], -1)
        return (
            self.roles.get(maker) in ROUNDS
            and self.index.read_once(node.input[0])
            and limits(node, self.index) is not None
        )


def _why_left(node: onnx.NodeProto, index: Index, found: _Candidates) -> str:
    """Return why a node without a role computes with floats; empty if it does not compute with them."""
    if node.op_type in _UNSAID or not any(map(index.is_float, node.output)) or moves(node, index):
        return ""
    if index.makers[node.output[0]] in found.roles:
        return "no convolution or dense layer reads its results"
    if node.op_type in POOLS | JOINING.keys() | FUNCTIONS:
        return "between layers in floats"
    return f"{node.op_type} has no integer form"

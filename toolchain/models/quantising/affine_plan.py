"""Decides which nodes of a float graph compute with integers, and where values are rounded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from toolchain.arrays import Array
from toolchain.models.onnx_graph import attributes_of, node_name

# A static float graph, indexed by tensors.

FLOAT = TensorProto.FLOAT


class Index:
    """Producers and readers of each tensor of a folded model with inferred shapes.

    Attributes
    ----------
    nodes
        The nodes in topological order; a position is an index into them.
    makers
        Tensor -> position of the node that computes it.
    readers
        Tensor -> positions of the nodes that read it, once for each place.
    outputs
        The outputs of the network.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.model = model
        self.nodes = list(graph.node)
        self.makers = {name: at for at, node in enumerate(self.nodes) for name in node.output if name}
        self.readers: dict[str, list[int]] = {}
        for at, node in enumerate(self.nodes):
            for name in node.input:
                self.readers.setdefault(name, []).append(at)
        self.outputs = {value.name for value in graph.output}
        self._types = {
            value.name: value.type.tensor_type for value in (*graph.input, *graph.value_info, *graph.output)
        }

    @cached_property
    def stored(self) -> dict[str, onnx.TensorProto]:
        """The stored tensors by name."""
        return {tensor.name: tensor for tensor in self.model.graph.initializer}

    def array(self, name: str) -> Array:
        """Return a stored tensor."""
        return np.asarray(numpy_helper.to_array(self.stored[name]))

    def active(self, node: onnx.NodeProto) -> list[str]:
        """Return the inputs of a node that are computed or given, without stored ones."""
        return [name for name in node.input if name and name not in self.stored]

    def is_float(self, name: str) -> bool:
        """Whether a tensor is known to be float32."""
        if name in self.stored:
            return bool(self.stored[name].data_type == FLOAT)
        return name in self._types and self._types[name].elem_type == FLOAT

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a computed tensor; empty if it is unknown."""
        if name in self.stored:
            return tuple(self.stored[name].dims)
        if name not in self._types:
            return ()
        return tuple(dim.dim_value for dim in self._types[name].shape.dim)

    def read_once(self, name: str) -> bool:
        """Whether one place of one node reads a tensor, and nothing else."""
        return name not in self.outputs and len(self.readers.get(name, ())) == 1


# Tells which operators have an integer form, and which roles they have in an integer network.


class IntegerRole(Enum):
    """Role of a node in an integer network; nodes without a role compute with floats.

    The value names such a node to users.
    """

    CONVOLUTION = "convolution"
    DENSE = "dense layer"
    SUM = "addition"
    PRODUCT = "multiplication"
    POOL = "average pool"
    CONCATENATION = "concatenation"
    FUNCTION = "activation"
    """Elementwise, of one tensor of integers: a table of 256 entries."""
    MOVE = "move"
    """Moves or compares integers, whose scale stays."""
    LIMIT = "limit"
    """A Relu or Clip that rounding to integers implies."""


WEIGHTED = {"Conv": IntegerRole.CONVOLUTION, "Gemm": IntegerRole.DENSE, "MatMul": IntegerRole.DENSE}
"""Products with stored weights."""

JOINING = {"Add": IntegerRole.SUM, "Mul": IntegerRole.PRODUCT}

POOLS = frozenset({"AveragePool", "GlobalAveragePool"})

MOVES = frozenset({
    "DepthToSpace", "Expand", "Flatten", "Gather", "MaxPool", "Pad", "Reshape", "Slice", "SpaceToDepth",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip

FUNCTIONS = frozenset({
    "Abs", "Add", "Celu", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
    "Log", "Max", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "Reciprocal", "Relu", "Selu", "Sigmoid",
    "Softplus", "Softsign", "Sqrt", "Sub", "Swish", "Tanh", "ThresholdedRelu",
})  # fmt: skip

ANCHORS = frozenset({IntegerRole.CONVOLUTION, IntegerRole.DENSE})
"""Roles of the layers between which other nodes become integers, too."""

ROUNDS = ANCHORS | {IntegerRole.SUM, IntegerRole.PRODUCT, IntegerRole.POOL}
"""Roles whose results are computed with more bits and rounded to 8, so that rounding can imply a limit."""


def refusal(node: onnx.NodeProto, index: Index) -> str:
    """Return why a convolution or product stays in floats; empty if it can compute with integers."""
    attributes = attributes_of(node)
    weight = node.input[1] if len(node.input) > 1 else ""
    if node.input[0] in index.stored:
        return "multiplies stored values from the left"
    if weight not in index.stored:
        return "its weights are computed"
    if len(node.input) > 2 and node.input[2] and node.input[2] not in index.stored:
        return "its bias is computed"
    if not all(index.is_float(name) for name in (node.input[0], *node.output, weight)):
        return "not of float32"
    if node.op_type == "Conv":
        return "" if index.shape(node.output[0]) else "of unknown shape"
    if len(index.shape(weight)) != 2 or len(index.shape(node.input[0])) < 2:
        return "not of matrices"
    if node.op_type == "Gemm" and attributes.get("transA", 0):
        return "of a transposed input"
    if node.op_type == "Gemm" and len(node.input) > 2 and node.input[2]:
        columns = index.shape(weight)[0 if attributes.get("transB", 0) else 1]
        bias = index.shape(node.input[2])
        if math.prod(bias) not in (1, columns) or any(extent != 1 for extent in bias[:-1]):
            return "its bias differs by row"
    return ""


def moves(node: onnx.NodeProto, index: Index) -> bool:
    """Whether a node only moves or compares the values of its first input, so that integers will do."""
    attributes = attributes_of(node)
    if any(name not in index.stored for name in node.input[1:] if name):
        return False
    if node.op_type == "MaxPool":
        return sum(map(bool, node.output)) == 1 and not attributes.get("storage_order", 0)
    if node.op_type == "Pad":
        value = node.input[2] if len(node.input) > 2 else ""
        return attributes.get("mode", b"constant") == b"constant" and (
            not value or not index.array(value).any()
        )
    return node.op_type in MOVES


def limits(node: onnx.NodeProto, index: Index) -> tuple[float, float] | None:
    """Return the range of a Relu or Clip if it is constant and holds 0, which every scale represents."""
    if node.op_type == "Relu":
        return 0.0, float("inf")
    if node.op_type != "Clip" or any(name and name not in index.stored for name in node.input[1:]):
        return None
    names = [*node.input[1:], "", ""][:2]
    ends = (float("-inf"), float("inf"))
    low, high = (
        float(index.array(name).reshape(())) if name else end for name, end in zip(names, ends, strict=True)
    )
    return (low, high) if low <= 0 <= high and low < high else None


_UNSAID = frozenset({"Cast", "Concat", "Identity"})
"""Operators without arithmetic, which are left out of the list of layers in floats."""


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

    All convolutions and dense layers with stored weights compute with integers. Other nodes do if they are
    between such layers, so that values need not become floats on the way: rounding values that only float
    layers read would lose accuracy and gain nothing.
    """
    candidates = _Candidates(index)
    roles = candidates.needed()
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
        if (
            at not in roles
            and node_name(node) not in candidates.left
            and (why := _why_left(node, index, candidates))
        ):
            candidates.left[node_name(node)] = why
    return IntegerPlan(roles, results, frozenset(rounded), candidates.left)


@dataclass
class _Candidates:
    """Nodes that could compute with integers, whether or not that gains anything."""

    index: Index
    roles: dict[int, IntegerRole] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    """Result of a chain of elementwise functions -> the integer tensor at the chain's beginning."""
    left: dict[str, str] = field(default_factory=dict)
    _integer_results: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for at, node in enumerate(self.index.nodes):
            role = self._role(node)
            if role is not None:
                self.roles[at] = role
                self._integer_results.update(node.output)

    def needed(self) -> dict[int, IntegerRole]:
        """Return the candidates whose results reach a convolution or a dense layer."""
        read: set[str] = set()
        kept: dict[int, IntegerRole] = {}
        for at, role in reversed(self.roles.items()):
            node = self.index.nodes[at]
            limits_anchor = (
                role is IntegerRole.LIMIT and self.roles[self.index.makers[node.input[0]]] in ANCHORS
            )
            if role in ANCHORS or limits_anchor or not read.isdisjoint(node.output):
                kept[at] = role
                read.update(node.input[:1] if role in ANCHORS else self.index.active(node))
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
        integral = [name in self._integer_results for name in active]
        if node.op_type == "Concat":
            return IntegerRole.CONCATENATION if any(integral) else None
        if not all(integral):
            return None
        if self._implied(node):
            return IntegerRole.LIMIT
        if moves(node, index):
            return IntegerRole.MOVE
        if node.op_type in POOLS:
            attributes = attributes_of(node)
            return (
                None
                if attributes.get("ceil_mode", 0) or set(attributes.get("dilations", (1,))) != {1}
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


def _why_left(node: onnx.NodeProto, index: Index, candidates: _Candidates) -> str:
    """Return why a node without a role computes with floats; empty if it does no float arithmetic."""
    if node.op_type in _UNSAID or not any(map(index.is_float, node.output)) or moves(node, index):
        return ""
    if index.makers[node.output[0]] in candidates.roles:
        return "no convolution or dense layer reads its results"
    if node.op_type in POOLS | JOINING.keys() | FUNCTIONS:
        return "between layers in floats"
    return f"{node.op_type} has no integer form"

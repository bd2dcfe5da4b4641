"""A static float graph, indexed by tensors."""

from __future__ import annotations

import math
from enum import Enum
from functools import cached_property

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from toolchain.arrays import Array
from toolchain.models.walk import attributes_of

FLOAT = TensorProto.FLOAT


class Index:
    """Finds what makes and what reads each tensor of a folded model with inferred shapes.

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
    """Moves or compares integers without changing their scale."""
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
"""Roles for whose sake other nodes become integers."""

ROUNDS = ANCHORS | {IntegerRole.SUM, IntegerRole.PRODUCT, IntegerRole.POOL}
"""Roles whose results are computed with more bits and rounded to 8, so that rounding can imply a limit."""


def refusal(node: onnx.NodeProto, index: Index) -> str:
    """Return why a convolution or product stays in floats; empty if nothing is against integers."""
    own = attributes_of(node)
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
    if node.op_type == "Gemm" and own.get("transA", 0):
        return "of a transposed input"
    if node.op_type == "Gemm" and len(node.input) > 2 and node.input[2]:
        columns = index.shape(weight)[0 if own.get("transB", 0) else 1]
        bias = index.shape(node.input[2])
        if math.prod(bias) not in (1, columns) or any(extent != 1 for extent in bias[:-1]):
            return "its bias differs by row"
    return ""


def moves(node: onnx.NodeProto, index: Index) -> bool:
    """Whether a node only moves or compares the values of its first input, whatever type they have."""
    own = attributes_of(node)
    if any(name not in index.stored for name in node.input[1:] if name):
        return False
    if node.op_type == "MaxPool":
        return sum(map(bool, node.output)) == 1 and not own.get("storage_order", 0)
    if node.op_type == "Pad":
        value = node.input[2] if len(node.input) > 2 else ""
        return own.get("mode", b"constant") == b"constant" and (not value or not index.array(value).any())
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

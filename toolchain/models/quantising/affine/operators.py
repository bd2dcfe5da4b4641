"""Tells which operators have an integer form, and which roles they have in an integer network."""

from __future__ import annotations

import math
from enum import Enum

import onnx

from toolchain.models.quantising.affine.index import Index
from toolchain.models.walk import attributes_of


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

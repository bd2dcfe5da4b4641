"""Finds where a network rounds to 8-bit integers, and which results are the same in every program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.preparing.declared import dtype_of
from toolchain.models.rewrites.quantised.table import CONVOLUTION_WITH_FLOATS, GEMM_WITH_FLOATS
from toolchain.models.rewrites.quantised.unsigned import REAL, ROUND
from toolchain.models.softmax import TRANSPARENT

DYNAMIC = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})
"""Operators that round floats with a scale computed from the data."""

RECURRENT = frozenset({"DynamicQuantizeLSTM"})
"""Operators that round their own float results of the step before."""

APPROXIMATED = frozenset({"QLinearSigmoid", "QLinearSoftmax"})
"""Integer operators that compute a float function internally."""

BIASED = frozenset({CONVOLUTION_WITH_FLOATS, GEMM_WITH_FLOATS})
"""Sums of integers with a bias in floats, for which onnxruntime computes the whole sum in floats."""

ALIKE = frozenset({
    "Abs", "Cast", "Clip", "Concat", "DepthToSpace", "Div", "Expand", "Flatten", "Gather", "Identity",
    "LeakyRelu", "Max", "MaxPool", "Min", "Mul", "Neg", "Pad", "Relu", "Reshape", "Slice", "SpaceToDepth",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
"""Float operators that round at most once, so that every processor gives the same result. Sums are not
included: a product and a sum may become one fused instruction, which rounds once instead of twice."""


@dataclass(frozen=True)
class Rounding:
    """The places at which a network rounds to integers.

    Attributes
    ----------
    steps
        Output -> step size, for outputs that are integers or dequantised integers.
    uncertain
        Outputs of the nodes whose inputs differ slightly between programs before they are rounded.
    floats
        Outputs of all nodes that round floats, those in `uncertain` included.
    """

    steps: dict[str, float]
    uncertain: tuple[str, ...]
    floats: tuple[str, ...]


def find_rounding(model: onnx.ModelProto) -> Rounding | None:
    """Return where a folded graph rounds, with its groups as integer operators; None if nowhere."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    rounding = DYNAMIC | APPROXIMATED | BIASED | {ROUND}
    nodes = [node for node in graph.node if node.op_type in rounding]
    if not nodes and not any(node.op_type == REAL or node.op_type.startswith("Q") for node in graph.node):
        return None
    alike = alike_values(graph)
    surely = APPROXIMATED | RECURRENT | BIASED
    uncertain = [n for n in nodes if n.op_type in surely or not alike.get(n.input[0], True)]
    stored = {tensor.name: tensor for tensor in graph.initializer}
    steps = {value.name: step for value in graph.output if (step := _step(value, makers, stored)) is not None}
    floats = [node for node in nodes if node.op_type not in APPROXIMATED or node in uncertain]
    return Rounding(steps, *(tuple(node.output[0] for node in each) for each in (uncertain, floats)))


def alike_values(graph: onnx.GraphProto, exact: frozenset[str] = frozenset()) -> dict[str, bool]:
    """Return for each computed tensor whether its values are the same in every program.

    Parameters
    ----------
    exact
        Operators beside `ALIKE` that give equal results for equal inputs.
    """
    alike: dict[str, bool] = {}
    for node in graph.node:  # in topological order
        inputs = all(alike.get(name, True) for name in node.input)
        rounds = node.op_type in DYNAMIC and node.op_type != "DynamicQuantizeLinear"
        same = not rounds and (_on_integers(node) or (node.op_type in ALIKE | exact and inputs))
        alike.update(dict.fromkeys(node.output, same))
    return alike


def _on_integers(node: onnx.NodeProto) -> bool:
    """Whether a node's outputs are integers or dequantised integers."""
    name = str(node.op_type)
    return name in (ROUND, REAL, "DynamicQuantizeLinear") or name.startswith("Q") or name.endswith("Integer")


def _step(
    value: onnx.ValueInfoProto,
    makers: dict[str, onnx.NodeProto],
    stored: dict[str, onnx.TensorProto],
) -> float | None:
    node = makers.get(value.name)
    while node is not None and node.op_type in TRANSPARENT | {"Transpose"}:
        node = makers.get(node.input[0])
    if node is None or not (node.op_type in (ROUND, REAL) or node.op_type.startswith("Q")):
        return None
    if node.op_type != REAL:
        return 1.0 if np.issubdtype(np.dtype(dtype_of(value)), np.integer) else None
    scale = numpy_helper.to_array(stored[node.input[1]]) if node.input[1] in stored else None
    return float(scale.reshape(())) if scale is not None and scale.size == 1 else None

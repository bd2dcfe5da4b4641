"""Finds where a network rounds to 8-bit integers, and inputs whose samples need ties and extremes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.arrays import Array
from toolchain.models.onnx_graph import attributes_of, input_values
from toolchain.models.output_kinds import TRANSPARENT
from toolchain.models.preparing.tensor_types import dtype_of
from toolchain.models.rewrites.quantised.integer_operators import CONVOLUTION_WITH_FLOATS, GEMM_WITH_FLOATS
from toolchain.models.rewrites.quantised.values import REAL, ROUND
from toolchain.models.samples import BYTES, Inputs, Sort, samples
from toolchain.models.spec import TensorSpec

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
    return Rounding(steps, *(tuple(node.output[0] for node in nodes) for nodes in (uncertain, floats)))


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


# Ties and extremes for seeded samples, which random numbers never hold.
#
# What `ArgMax`, `TopK`, a comparison or `Round` answers depends on equal values, on rows that are all the
# least of their type, on halves. They are put into the inputs that such operators see through others that
# every program computes alike; behind sums of floats, equal values of one program are none of another.

ROWS = frozenset({"ArgMax", "ArgMin", "Hardmax", "ReduceMax", "ReduceMin", "TopK"})
"""Operators whose result depends on which values of a row are equal, or all extreme."""

ELEMENTS = frozenset(
    {"Cast", "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min"}
    | {"Mod", "Round", "Sign", "Where"}
)
"""Operators whose result depends on equal operands, on zeros, halves or whole numbers."""

_CHOICES = frozenset(
    {"ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"}
    | {"Sign"}
)
# Operators that hand values on as they are: which inputs hold them.
_MOVES: Mapping[str, slice] = {
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"), slice(0, 1)),
    **dict.fromkeys(("Expand", "Gather", "Slice", "Split", "Tile"), slice(0, 1)),
    "Concat": slice(None),
}
_RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
_HALVES = (0.0, 0.5, 1.0, -0.5, 1.5, -1.0, 2.5, -1.5, 2.0, -2.5)
_SHARE = 4
"""One in this many values becomes a half, a zero or a whole number."""

_EACH = 8
"""Most rows of each kind: of equal values, and of extremes."""


@dataclass(frozen=True)
class Ties:
    """Equal and extreme values that samples of an input need in addition to random ones.

    Attributes
    ----------
    axes
        Along which it has rows of equal and extreme values.
    elements
        Whether it has halves, whole numbers and zeros, at the same places as other inputs of its shape.
    extremes
        Whether rows may be the least or greatest values of its type: nothing but places and truth values
        comes of them, or integers. Else they would hide all other values in a comparison.
    """

    axes: tuple[int, ...] = ()
    elements: bool = False
    extremes: bool = False


def find_ties(model: onnx.ModelProto) -> dict[str, Ties]:
    """Return input -> the ties that its samples need; other inputs are left out.

    Parameters
    ----------
    model
        A folded graph, with its groups as integer operators.
    """
    graph = model.graph
    inputs = {value.name: value.type.tensor_type for value in input_values(graph)}
    alike = alike_values(graph, _CHOICES | ROWS | ELEMENTS)
    sources: dict[str, frozenset[str]] = {name: frozenset({name}) for name in inputs}
    orders = {name: tuple(range(len(kind.shape.dim))) for name, kind in inputs.items()}
    axes: dict[str, set[int]] = {}
    elements: set[str] = set()
    for node in graph.node:
        read = frozenset[str]().union(*(sources.get(name, frozenset()) for name in node.input))
        sources.update(dict.fromkeys(node.output, read))
        exact = all(alike.get(name, True) for name in node.input)
        for name in read:
            truth = inputs[name].elem_type == onnx.TensorProto.BOOL
            if node.op_type in ROWS and (exact or truth):
                axes.setdefault(name, set()).add(_axis(node, orders.get(node.input[0]) or orders[name]))
            if node.op_type in ELEMENTS and exact:
                elements.add(name)
        if node.op_type in _RESHAPING or node.input[:1] == [""] or not node.input:
            continue
        order = orders.get(node.input[0], ())
        if node.op_type == "Transpose":
            turn = attributes_of(node).get("perm", range(len(order))[::-1])
            order = tuple(order[axis] for axis in turn) if len(turn) == len(order) else ()
        orders.update(dict.fromkeys(node.output, order))
    hidden = _hidden(graph)
    small = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    return {
        name: Ties(
            tuple(sorted(axis for axis in axes.get(name, ()) if axis < len(kind.shape.dim))),
            name in elements,
            name in hidden or kind.elem_type in small,
        )
        for name, kind in inputs.items()
        if name in axes or name in elements
    }


def _axis(node: onnx.NodeProto, order: Sequence[int]) -> int:
    """Return the axis of an input along which a node's rows run; the last one by default.

    Parameters
    ----------
    order
        Which axis of the input each axis of the node's operand is.
    """
    axis = attributes_of(node).get("axis", 0 if node.op_type.startswith("Arg") else -1)
    return order[int(axis) % len(order)] if order else 0


def _hidden(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors from which only indices, booleans and integers are computed."""
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
    shown = {value.name for value in graph.output if value.type.tensor_type.elem_type in floats}
    used = {value.name for value in graph.output} | {name for node in graph.node for name in node.input}
    for node in reversed(graph.node):
        if node.op_type in _CHOICES or (node.op_type == "TopK" and node.output[0] not in used):
            continue
        moved = set(node.input[_MOVES.get(node.op_type, slice(0, 0))])
        shown.update(name for name in node.input if name not in moved or not shown.isdisjoint(node.output))
    return used - shown


def samples_with_ties(
    specs: Iterable[TensorSpec], ties: Mapping[str, Ties], seed: int, sort: Sort, *, extremes: bool
) -> Inputs:
    """Return the inputs of `samples` with equal and extreme values added.

    Parameters
    ----------
    extremes
        Whether rows are extreme, where `ties` allows it.
    """
    tied = {}
    for name, array in samples(list(specs), seed, sort).items():
        how = ties.get(name, Ties())
        tied[name] = _with_ties(array, how if extremes else replace(how, extremes=False), sort)
    return tied


def describe_ties(ties: Mapping[str, Ties], *, extremes: bool) -> str:
    """Describe for users which values were added to random inputs."""
    phrases = ["rows of equal values"] if any(tie.axes for tie in ties.values()) else []
    if extremes and any(tie.axes and tie.extremes for tie in ties.values()):
        phrases.append("rows of extremes")
    if any(tie.elements for tie in ties.values()):
        phrases.append("halves, zeros and equal operands")
    return " and ".join(phrases)


def _with_ties(array: Array, how: Ties, sort: Sort) -> Array:
    values = array.copy()
    if how.elements and values.ndim:
        flat = values.reshape(-1)
        places = flat[1::_SHARE]
        places[:] = np.resize(_special(array, sort), places.shape)
    for axis in how.axes if values.size else ():
        rows = np.ascontiguousarray(np.moveaxis(values, axis, -1))
        _fill_rows(rows.reshape(-1, rows.shape[-1]), how.extremes)
        values = np.ascontiguousarray(np.moveaxis(rows, -1, axis))
    return values


def _special(array: Array, sort: Sort) -> Array:
    """Return the values at which results change, of those that the sort draws from."""
    kind = array.dtype
    if kind.kind == "b":
        return np.array([True, False])
    if kind.kind == "f":
        low, high = array.min(initial=0.0), array.max(initial=0.0)
        if sort.floats != "normal floats":
            low, high = np.floor(array.min(initial=2.0)), np.ceil(array.max(initial=0.0))
        return np.array([half for half in _HALVES if low <= half <= high] or [1.0], kind)
    if sort.bytes and kind.name in BYTES:
        ends = np.iinfo(kind)
        return np.array([ends.min, ends.min + 1, ends.max, (ends.min + ends.max) // 2 + 1], kind)
    return np.arange(sort.low, max(sort.high, sort.low + 1)).astype(kind)


def _fill_rows(rows: Array, extremes: bool) -> None:
    """Write rows of equal and extreme values over at most half of the rows; a tie into a single one."""
    kind, count = rows.dtype, len(rows)
    fixed = [np.zeros((), kind)]
    if kind.kind == "b":
        fixed.append(np.ones((), kind))
    elif extremes and kind.kind == "f":
        limits = np.finfo(kind)
        fixed = [np.asarray(number, kind) for number in (-np.inf, np.inf, limits.min, limits.max, 0)]
    elif extremes:
        ends = np.iinfo(kind)
        fixed = [np.asarray(number, kind) for number in (ends.min, ends.max, 0)]
    kinds = len(fixed) + 2
    for number in range(min(kinds, (count + 1) // 2)):
        step = max(2 * kinds, count // _EACH)
        for row in rows[2 * number if count > 1 else 0 :: step]:
            if count == 1 or number == len(fixed):
                low, high = row.min(), row.max()
                if row.size > 3:
                    row[1] = row[-2] = low
                row[0] = row[-1] = high
            elif number > len(fixed):
                row[:] = row[0]
            else:
                row[:] = fixed[number]

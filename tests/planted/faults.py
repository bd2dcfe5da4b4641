"""Faults that a compiler, a library or its author may make, planted into a network one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array
from toolchain.models.deviation import ArrayPart
from toolchain.models.onnx_graph import attributes_of

Region = tuple[slice, ...]
"""A part of an output, as its author would name it."""

MOST_PLACES = 4
"""Places of a network where each kind of fault is planted: from its first layer to its last."""

_WEIGHTED = {"Conv": 1, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1, "LSTM": 1, "GRU": 1, "MatMulInteger": 1}
_WEIGHTED |= {"QLinearConv": 3, "ConvInteger": 1, "DynamicQuantizeMatMul": 1}
_BIAS = {
    "Conv": 2,
    "ConvTranspose": 2,
    "Gemm": 2,
    "LSTM": 3,
    "GRU": 3,
    "QLinearConv": 8,
    "LayerNormalization": 2,
}
_OTHER_ACTIVATION = {
    "Relu": "Identity",
    "Sigmoid": "HardSigmoid",
    "Tanh": "Softsign",
    "HardSwish": "Relu",
    "LeakyRelu": "Relu",
    "Erf": "Tanh",
    "Elu": "Relu",
    "Softplus": "Relu",
    "Gelu": "Relu",
}


@dataclass(frozen=True)
class Fault:
    """A network with a fault: its kind, where it is, and the graph."""

    kind: str
    place: str
    model: onnx.ModelProto


class _Copy:
    """A copy of a network that a fault is planted into."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.graph = self.model.graph
        self.stored = {tensor.name: tensor for tensor in self.graph.initializer}

    def tensor(self, name: str) -> onnx.TensorProto | None:
        """Return the stored tensor behind a name, also if it is dequantised first."""
        makers = {output: node for node in self.graph.node for output in node.output}
        while name not in self.stored:
            node = makers.get(name)
            if node is None or node.op_type not in ("DequantizeLinear", "Identity", "Transpose"):
                return None
            name = node.input[0]
        return self.stored[name]

    def change(self, name: str, change: Callable[[Array], Array]) -> bool:
        """Change a stored tensor; return whether that changed a value."""
        tensor = self.tensor(name)
        if tensor is None:
            return False
        before = numpy_helper.to_array(tensor)
        after = np.asarray(change(before)).astype(before.dtype)
        tensor.CopyFrom(numpy_helper.from_array(after, tensor.name))
        return not np.array_equal(before, after)


def _output_axis(node: onnx.NodeProto, weight: Array) -> int:
    """Return the axis of a weight that counts output channels."""
    if node.op_type in ("Conv", "QLinearConv", "ConvInteger"):
        return 0
    if node.op_type == "ConvTranspose" or node.op_type in ("LSTM", "GRU"):
        return 1
    return 0 if node.op_type == "Gemm" and attributes_of(node).get("transB") else weight.ndim - 1


def _gates(copy: _Copy, at: int) -> bool:
    """Take each gate of a recurrent layer for its neighbour, as frameworks order them differently."""
    node = copy.graph.node[at]
    hidden = attributes_of(node)["hidden_size"]
    return copy.change(node.input[1], lambda weight: np.roll(weight, hidden, axis=1))


def _state(copy: _Copy, at: int) -> bool:
    """Shift what a recurrent layer multiplies its state by."""
    return copy.change(copy.graph.node[at].input[2], lambda weight: np.roll(weight, 1, axis=2))


def _bias(copy: _Copy, at: int) -> bool:
    node = copy.graph.node[at]
    if node.op_type == "Add":
        vectors = [name for name in node.input if (t := copy.tensor(name)) is not None and sum(t.dims) > 1]
        return bool(vectors) and copy.change(vectors[0], np.zeros_like)
    place = _BIAS.get(node.op_type)
    return place is not None and len(node.input) > place and copy.change(node.input[place], np.zeros_like)


def _shifted(copy: _Copy, at: int) -> bool:
    node = copy.graph.node[at]
    name = node.input[_WEIGHTED[node.op_type]]
    return copy.change(name, lambda weight: np.roll(weight.reshape(-1), 1).reshape(weight.shape))


def _weights(change: Callable[[Array], Array]) -> Callable[[_Copy, int], bool]:
    """Return what changes a layer's weights, whose output channels come first for `change`."""

    def plant(copy: _Copy, at: int) -> bool:
        node = copy.graph.node[at]

        def changed(weight: Array) -> Array:
            axis = _output_axis(node, weight)
            return np.moveaxis(change(np.moveaxis(weight, axis, 0).copy()), 0, axis)

        return copy.change(node.input[_WEIGHTED[node.op_type]], changed)

    return plant


def _last_left_out(rows: Array) -> Array:
    rows[-1] = 0
    return rows


def _cut_short(rows: Array) -> Array:
    rows[:, -1] = 0
    return rows


def _off_by_a_tenth(rows: Array) -> Array:
    return rows - rows // 8 if rows.dtype.kind in "iu" else rows * np.float32(0.9)


def _neighbour(rows: Array) -> Array:
    return np.roll(rows, 1, axis=0)


def _swapped(rows: Array) -> Array:
    """Swap the two channels that differ most."""
    sums = rows.astype(np.float64).reshape(len(rows), -1).sum(axis=1)
    one, other = int(sums.argmin()), int(sums.argmax())
    rows[[one, other]] = rows[[other, one]]
    return rows


def _activation(copy: _Copy, at: int) -> bool:
    node = copy.graph.node[at]
    if node.op_type not in _OTHER_ACTIVATION:
        return False
    node.op_type = _OTHER_ACTIVATION[node.op_type]
    del node.attribute[:]
    return True


def _crop(copy: _Copy, at: int) -> bool:
    """Move a window over its image by one place."""
    node = copy.graph.node[at]
    pads = next((a for a in node.attribute if a.name == "pads"), None)
    if pads is None or not any(pads.ints):
        return False
    rank = len(pads.ints) // 2
    axis = next((axis for axis in range(rank) if pads.ints[axis + rank]), None)
    if axis is None:
        return False
    pads.ints[axis] += 1
    pads.ints[axis + rank] -= 1
    return True


def _constant(copy: _Copy, at: int) -> bool:
    """Replace a constant by another layer's of the same shape, or scale it by 0.9 if no layer has one."""
    node = copy.graph.node[at]
    tensors = [t for name in node.input if (t := copy.tensor(name)) is not None and np.prod(t.dims) > 1]
    if not tensors:
        return False
    mine = tensors[0]
    others = [
        tensor
        for tensor in copy.stored.values()
        if tensor.name != mine.name and tensor.dims == mine.dims and tensor.data_type == mine.data_type
    ]
    if others:
        stale = numpy_helper.to_array(others[-1])
        return copy.change(mine.name, lambda _values: stale)
    return copy.change(mine.name, _off_by_a_tenth)


def _index(copy: _Copy, at: int) -> bool:
    """Take the neighbour: of a table's rows, of joined tensors, or of a layer's output channels."""
    node = copy.graph.node[at]
    if node.op_type == "Gather":
        return copy.change(node.input[0], lambda table: np.roll(table, 1, axis=0))
    if node.op_type == "Concat" and len(node.input) > 1:
        first, second = node.input[:2]
        if first == second:
            return False
        node.input[0], node.input[1] = second, first
        return True
    return _weights(_neighbour)(copy, at)


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the operators that may have it, and what plants it, unless that changes nothing."""

    operators: Collection[str]
    plant: Callable[[_Copy, int], bool]


KINDS = {
    "two channels swapped": Kind(_WEIGHTED, _weights(_swapped)),
    "a bias lost": Kind({*_BIAS, "Add"}, _bias),
    "weights shifted by one": Kind(_WEIGHTED, _shifted),
    "the last channel left out": Kind(_WEIGHTED, _weights(_last_left_out)),
    "a sum cut short": Kind(_WEIGHTED, _weights(_cut_short)),
    "a scale off by a tenth": Kind(_WEIGHTED, _weights(_off_by_a_tenth)),
    "gates mixed up": Kind({"LSTM", "GRU"}, _gates),
    "a state shifted by one": Kind({"LSTM", "GRU"}, _state),
    "a wrong activation": Kind(_OTHER_ACTIVATION, _activation),
    "a crop off by one": Kind({"Conv", "QLinearConv", "MaxPool", "AveragePool", "ConvTranspose"}, _crop),
    "a stale constant": Kind({*_WEIGHTED, "BatchNormalization", "LayerNormalization", "Mul"}, _constant),
    "an index off by one": Kind({*_WEIGHTED, "Gather", "Concat"}, _index),
}
ZEROED = "a part of an output zeroed"


def planted(model: onnx.ModelProto, parts: dict[str, Sequence[Region]]) -> Iterator[Fault]:
    """Yield a network once with each fault of each kind, at up to `MOST_PLACES` places.

    Parameters
    ----------
    parts
        Regions of outputs that are zeroed.
    """
    for name, kind in KINDS.items():
        places = [at for at, node in enumerate(model.graph.node) if node.op_type in kind.operators]
        count = 0
        for at in _spread(places)[: 3 * MOST_PLACES]:
            copy = _Copy(model)
            if count < MOST_PLACES and kind.plant(copy, at):
                node = model.graph.node[at]
                count += 1
                yield Fault(name, node.name or node.output[0], copy.model)
    for name, regions in parts.items():
        for region in regions:
            wrong, part = _zeroed(model, name, region)
            yield Fault(ZEROED, f"{name}{part}", wrong)


def _spread(places: Sequence[int]) -> list[int]:
    """Return places in an order whose first ones are spread: the ends, the middle, what is between."""
    left, order = list(places), list[int]()
    for share in itertools.cycle((0.0, 1.0, 0.5, 0.25, 0.75)):
        if not left:
            return order
        order.append(left.pop(round(share * (len(left) - 1))))
    return order


def _zeroed(model: onnx.ModelProto, name: str, region: Region) -> tuple[onnx.ModelProto, ArrayPart]:
    """Return the network with zeros in a region of an output of floats, and the region."""
    copy = _Copy(model)
    output = next(value for value in copy.graph.output if value.name == name)
    shape = [dim.dim_value for dim in output.type.tensor_type.shape.dim]
    mask = np.ones(shape, helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type))
    mask[region] = 0
    for node in copy.graph.node:
        for place, made in enumerate(node.output):
            if made == name:
                node.output[place] = f"{name}/whole"
        for place, used in enumerate(node.input):
            if used == name:
                node.input[place] = f"{name}/whole"
    copy.graph.initializer.append(numpy_helper.from_array(mask, f"{name}/mask"))
    copy.graph.node.append(
        helper.make_node("Mul", [f"{name}/whole", f"{name}/mask"], [name], f"{name}/zeroed")
    )
    bounds = [piece.indices(extent)[:2] for piece, extent in zip(region, shape, strict=False)]
    return copy.model, ArrayPart(bounds, shape[: len(bounds)])


def halves(shape: Sequence[int]) -> list[Region]:
    """Return both halves of the longest axis of an output: what is zeroed where it has no parts."""
    axis = int(np.argmax(shape))
    bounds = [0, shape[axis] // 2, shape[axis]] if shape[axis] > 1 else [0, shape[axis]]
    return [
        tuple(slice(*each) if at == axis else slice(None) for at in range(len(shape)))
        for each in pairwise(bounds)
    ]

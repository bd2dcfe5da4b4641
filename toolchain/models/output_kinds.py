"""Finds outputs that are probabilities, and where a network joins its outputs from several tensors.

Joints are followed from each Concat to the outputs, through operators that move values and through
elementwise operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod

import onnx
from onnx import numpy_helper

from toolchain.models.deviation import Ends
from toolchain.models.onnx_graph import attributes_of, opset_of
from toolchain.models.preparing.tensor_types import dimensions

# Finds the outputs that are probabilities, which are compared by their logarithms.

TRANSPARENT = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout"})
"""Operators that keep the values and their order."""


def softmax_outputs(model: onnx.ModelProto) -> frozenset[str]:
    """Return the names of outputs whose last dimension sums to one because a Softmax made it.

    `LogSoftmax` does not count: its output is a logarithm already, to be compared as it is. Nor does a
    Softmax over another dimension than the output's last: centring along the last would be wrong.
    """
    makers = {output: node for node in model.graph.node for output in node.output}
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    shapes = {value.name: dimensions(value) for value in values}
    opset = opset_of(model)
    names = set()
    for output in model.graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in TRANSPARENT:
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Softmax":
            continue
        shape, last = shapes.get(node.output[0]), shapes.get(output.name)
        if shape and last and _classes(node, shape, opset) == last[-1]:
            names.add(output.name)
    return frozenset(names)


def _classes(node: onnx.NodeProto, shape: tuple[int | str, ...], opset: int) -> int | None:
    """Return how many adjacent elements of a Softmax sum to one; None if they are not adjacent."""
    axis = next((a.i for a in node.attribute if a.name == "axis"), -1 if opset >= 13 else 1) % len(shape)
    extents = [extent for extent in shape[axis:] if isinstance(extent, int)]
    if len(extents) != len(shape) - axis:
        return None
    if opset < 13:  # flattened to two dimensions at the axis
        return math.prod(extents)
    return extents[0] if math.prod(extents[1:]) == 1 else None


_MOST_JOINTS = 4096  # of one axis: more are no parts that somebody compares

_Joints = dict[int, frozenset[int]]  # axis -> where something is joined, without 0 and the extent
_Shape = tuple[int, ...]

# Their results have what their operands have at the same place.
# fmt: off
_ELEMENTWISE = frozenset({
    "Abs", "Add", "And", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu",
    "Clip", "Cos", "DequantizeLinear", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu",
    "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "Max", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow",
    "QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus",
    "Softsign", "Sqrt", "Sub", "Sum", "Tanh", "ThresholdedRelu", "Where", "Xor",
})
# fmt: on
_RESHAPING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})


def joined_parts(model: onnx.ModelProto) -> dict[str, Ends]:
    """Return output -> where the tensors that it is joined from end; outputs of one tensor are left out.

    Parameters
    ----------
    model
        A graph with the shapes of its inner tensors. Tensors without a known shape end the search.
    """
    graph = model.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {value.name: known for value in values if (known := _known(dimensions(value))) is not None}
    stored = {tensor.name: tensor for tensor in graph.initializer}
    shapes |= {name: tuple(tensor.dims) for name, tensor in stored.items()}
    joints: dict[str, _Joints] = {}
    for node in graph.node:
        rule = _RULES.get(node.op_type, _elementwise if node.op_type in _ELEMENTWISE else None)
        names = [name for name in (*node.input, *node.output) if name]
        if rule is None or node.domain not in ("", "ai.onnx") or not all(name in shapes for name in names):
            continue
        of_outputs = rule(_Node(node, shapes, stored, joints))
        for name, at in zip(node.output, of_outputs, strict=False):
            joints[name] = {
                axis: frozenset(inner)
                for axis, places in at.items()
                if (inner := [place for place in places if 0 < place < shapes[name][axis]])
                and len(inner) < _MOST_JOINTS
            }
    return {
        output.name: {
            axis: (*sorted(at), shapes[output.name][axis]) for axis, at in sorted(joints[output.name].items())
        }
        for output in graph.output
        if joints.get(output.name)
    }


class _Node:
    """A node with the shapes of its tensors, and where its inputs are joined."""

    def __init__(
        self,
        node: onnx.NodeProto,
        shapes: Mapping[str, _Shape],
        stored: Mapping[str, onnx.TensorProto],
        joints: Mapping[str, _Joints],
    ) -> None:
        self.inputs = [(shapes[name], joints.get(name, {})) for name in node.input if name]
        self.outputs = [shapes[name] for name in node.output if name]
        self.attributes = attributes_of(node)
        self._node, self._stored = node, stored

    def axis(self, default: int = 0) -> int:
        """The attribute `axis`, from the front."""
        return int(self.attributes.get("axis", default)) % max(len(self.inputs[0][0]), 1)

    def numbers(self, place: int, attribute: str) -> list[int] | None:
        """The numbers of a stored input, which older operator sets have as an attribute; None if computed."""
        if attribute in self.attributes:
            return [int(number) for number in self.attributes[attribute]]
        name = self._node.input[place] if len(self._node.input) > place else ""
        tensor = self._stored.get(name)
        return (
            None if tensor is None else [int(number) for number in numpy_helper.to_array(tensor).reshape(-1)]
        )


_At = Mapping[int, Iterable[int]]


def _elementwise(node: _Node) -> list[_At]:
    rank = len(node.outputs[0])
    at: dict[int, set[int]] = {}
    for shape, joints in node.inputs:
        for axis, places in joints.items():
            at.setdefault(axis + rank - len(shape), set()).update(places)
    return [at]


def _concat(node: _Node) -> list[_At]:
    axis = node.axis()
    at: dict[int, set[int]] = {axis: set()}
    offset = 0
    for shape, joints in node.inputs:
        for other, places in joints.items():
            at.setdefault(other, set()).update(place + offset * (other == axis) for place in places)
        at[axis].add(offset)
        offset += shape[axis]
    return [at]


def _transpose(node: _Node) -> list[_At]:
    ((shape, joints),) = node.inputs
    order = node.attributes.get("perm", range(len(shape))[::-1])
    return [{to: joints[axis] for to, axis in enumerate(order) if axis in joints}]


def _split(node: _Node) -> list[_At]:
    axis, joints = node.axis(), node.inputs[0][1]
    begins = accumulate([shape[axis] for shape in node.outputs], initial=0)
    return [
        {other: [place - begin * (other == axis) for place in places] for other, places in joints.items()}
        for begin, _ in zip(begins, node.outputs, strict=False)
    ]


def _slice(node: _Node) -> list[_At]:
    shape, joints = node.inputs[0]
    starts, steps = node.numbers(1, "starts"), node.numbers(4, "steps")
    axes = node.numbers(3, "axes") or list(range(len(starts or ())))
    if starts is None or any(step != 1 for step in steps or ()):
        return []
    begin = {
        axis % len(shape): min(start + shape[axis] * (start < 0), shape[axis])
        for axis, start in zip(axes, starts, strict=False)
    }
    return [{axis: [place - begin.get(axis, 0) for place in places] for axis, places in joints.items()}]


def _reshape(node: _Node) -> list[_At]:
    shape, joints = node.inputs[0]
    at: dict[int, set[int]] = {}
    for old, new in _groups(shape, node.outputs[0]):
        flat = _flat(shape, old, joints)
        # The places are of all rows: no axis behind the outermost one can have them as ends of its parts.
        outermost = next((axis for axis in new if node.outputs[0][axis] > 1), new[0])
        inner = prod(node.outputs[0][axis] for axis in new if axis > outermost)
        if all(place % inner == 0 for place in flat):
            at[outermost] = {place // inner for place in flat}
    return [at]


def _groups(old: _Shape, new: _Shape) -> Iterable[tuple[list[int], list[int]]]:
    """Yield the smallest groups of neighbouring axes that have as many elements before as after."""
    one, other = 0, 0
    while one < len(old) and other < len(new):
        mine, theirs = [one], [other]
        one, other = one + 1, other + 1
        while (have := prod(old[axis] for axis in mine)) != (want := prod(new[axis] for axis in theirs)):
            if have < want and one < len(old):
                mine.append(one)
                one += 1
            elif have > want and other < len(new):
                theirs.append(other)
                other += 1
            else:
                return  # of other sizes: a tensor without elements
        yield mine, theirs


def _flat(shape: _Shape, axes: Sequence[int], joints: _Joints) -> set[int]:
    """Return the places of the joints of a group of axes, counted in elements of the group."""
    places: set[int] = set()
    for axis in axes:
        inner = prod(shape[other] for other in axes if other > axis)
        rows = prod(shape[other] for other in axes if other < axis)
        if axis not in joints or rows * len(joints[axis]) > _MOST_JOINTS:
            continue
        extent = shape[axis] * inner
        places.update(row * extent + place * inner for row in range(rows) for place in (0, *joints[axis]))
    return places


def _known(shape: Sequence[int | str] | None) -> _Shape | None:
    if shape is None or any(isinstance(extent, str) for extent in shape):
        return None
    return tuple(int(extent) for extent in shape)


_RULES: Mapping[str, Callable[[_Node], list[_At]]] = {
    "Concat": _concat,
    "Transpose": _transpose,
    "Split": _split,
    "Slice": _slice,
    **dict.fromkeys(_RESHAPING, _reshape),
}

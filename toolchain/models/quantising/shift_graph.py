"""Writes the quantised network as an ONNX graph, which both onnxruntime and the importer read.

An integer convolution is a call of a function defined in the graph. onnxruntime computes the function's body
of standard operators, and so the expected output; the importer converts the call by its name
(`importing/converters.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from toolchain.arrays import Array
from toolchain.models.onnx_graph import Names, all_names
from toolchain.models.quantising.shift_exponents import (
    HIGH,
    LEAST_RIGHT,
    MOST_COMMON,
    MOST_DIAGONAL,
    MOST_RIGHT,
    Choose,
    Weights,
    rounded,
)
from toolchain.models.quantising.shift_sites import Site, StoredConvolution

# A convolution in integers: the description from which network, reference and accelerator code are made.

EXACT = 2**24
"""Whole numbers below are exact in float32."""


@dataclass(frozen=True)
class Layer:
    """`result = clip((conv(source, weight) + residual * 2**left + bias) >> right)`, in 32 bits.

    Attributes
    ----------
    site
        The site from which it is made; tensor names are the same.
    weight
        int8 [out, in, height, width].
    bias
        int32 [out], including the half step that makes the shift round.
    right
        int32 [out]: right shift of the sums.
    left
        int32 [out]: left shift of the residual; zero without a residual.
    low, high
        Range to which results are clipped.
    """

    site: Site
    weight: Array
    bias: Array
    right: Array
    left: Array
    low: int
    high: int


def layer_of(site: Site, exponents: Mapping[str, int], choose: Choose) -> Layer:
    """Return the integer form of a convolution: integer weights, biases and shifts.

    Parameters
    ----------
    exponents
        Exponent of each tensor that it reads or writes; the integer n stands for n * 2**exponent.
    choose
        Chooses the exponents of the weights, one for each output channel.

    Raises
    ------
    ValueError
        No shift gives the sums and the residual the same scale.
    """
    source, result = exponents[site.source], exponents[site.result]
    least, most = result - source - MOST_RIGHT, result - source - LEAST_RIGHT
    weights = Weights(site.weight)
    if site.residual:
        # All channels share a left shift; a diagonal matrix of powers of two does the rest.
        shift = exponents[site.residual] - source
        bounds = [
            (max(least, shift - left - MOST_DIAGONAL), min(most, shift - left))
            for left in range(MOST_COMMON + 1)
        ]
    else:
        bounds = [(least, most)]
    chosen = [choose(weights, low, high) for low, high in bounds if low <= high]
    if not chosen:
        raise ValueError(f"{site.name}: no shift gives its sums and its residual the same scale")
    exponent = min(chosen, key=lambda pair: pair[1])[0]
    right = (result - source - exponent).astype(np.int32)
    left = exponents[site.residual] - source - exponent if site.residual else np.zeros_like(right)
    bias = np.ldexp(site.bias.astype(np.float64), -(source + exponent)) + np.ldexp(1.0, right - 1)
    return Layer(
        site,
        rounded(site.weight, exponent.reshape(-1, 1, 1, 1)).astype(np.int8),
        np.clip(np.rint(bias), -(2**30), 2**30).astype(np.int32),
        right,
        left.astype(np.int32),
        int(rounded(np.array(max(site.low, -1e9)), result)),
        int(rounded(np.array(min(site.high, 1e9)), result)),
    )


@dataclass(frozen=True)
class RoundedConvolution:
    """A float convolution whose operands and sums are integer multiples of powers of two.

    Attributes
    ----------
    weight, bias
        Rounded weights and bias in float32.
    step
        float32 [out]: the step of which each output is a multiple.
    """

    weight: Array
    bias: Array
    step: Array


def rounded_convolution(convolution: StoredConvolution, exponent: int, choose: Choose) -> RoundedConvolution:
    """Return a convolution whose sums are exact in float32 in any order of addition.

    Parameters
    ----------
    exponent
        Exponent of the tensor that it reads, whose values are multiples of 2**exponent.
    choose
        Chooses the exponents of the weights, one for each output channel.
    """
    weights = Weights(convolution.weight)
    chosen, _ = choose(weights, -126, 126)
    while True:
        across = chosen.reshape(-1, *[1] * (convolution.weight.ndim - 1))
        whole = rounded(convolution.weight, across)
        bias = np.rint(np.ldexp(convolution.bias.astype(np.float64), -(exponent + chosen)))
        largest = HIGH * np.abs(whole).sum(axis=(1, 2, 3), dtype=np.float64) + np.abs(bias)
        if (beyond := largest >= EXACT).any():
            chosen = chosen + beyond  # coarser, where sums would need more bits
            continue
        step = np.ldexp(np.float32(1), exponent + chosen)
        return RoundedConvolution(
            np.ldexp(whole, across).astype(np.float32), (bias * step).astype(np.float32), step
        )


DOMAIN = "edge.integers"
PLAIN, SUMMED, ROUND = "IntegerConv", "IntegerConvSum", "IntegerRound"
_OPSET = 17
_INPUTS = ("x", "weight", "bias", "right", "low", "high")


@dataclass(frozen=True)
class Written:
    """A quantised graph, and the mapping tensor -> name of its integers in the graph."""

    model: onnx.ModelProto
    integers: dict[str, str]


def with_integers(
    model: onnx.ModelProto,
    layers: Sequence[Layer],
    floats: Mapping[int, RoundedConvolution],
    exponents: Mapping[str, int],
) -> Written:
    """Return a graph with its sites quantised, and with conversions between floats and integers.

    Parameters
    ----------
    model
        The model with inferred shapes; not changed.
    layers
        The layers in the graph's order.
    floats
        Position of a convolution that stays in floats -> its rounded replacement.
    exponents
        Tensor -> exponent of its integers.
    """
    names = Names(all_names(model.graph))
    writer = _Writer(names, exponents)
    at = {layer.site.nodes[-1]: layer for layer in layers}
    covered = {position for layer in layers for position in layer.site.nodes}
    others = [node for position, node in enumerate(model.graph.node) if position not in covered]
    read = {name for node in others for name in node.input}
    read.update(output.name for output in model.graph.output)
    for position, node in enumerate(model.graph.node):
        if position in at:
            writer.integers_of(at[position], also_real=at[position].site.result in read)
        elif position in floats:
            writer.floats_of(node, floats[position])
        elif position not in covered:
            writer.nodes.append(node)
    return Written(_model(model, writer), writer.integers)


class _Writer:
    def __init__(self, names: Names, exponents: Mapping[str, int]) -> None:
        self.names, self.exponents = names, exponents
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.integers: dict[str, str] = {}
        self.exact: set[str] = set()

    def floats_of(self, node: onnx.NodeProto, replacement: RoundedConvolution) -> None:
        """Write a convolution of rounded operands and round its sums, since winograd's sums are not exact."""
        result = node.output[0]
        conv = onnx.NodeProto()
        conv.CopyFrom(node)
        del conv.input[1:], conv.output[:]
        conv.input[0] = self.real(node.input[0])
        conv.input.append(self.constant(replacement.weight, f"{result}/weight"))
        conv.input.append(self.constant(replacement.bias, f"{result}/bias"))
        conv.output.append(self.names.free(f"{result}/sums"))
        self.nodes.append(conv)
        step = replacement.step.reshape(1, -1, 1, 1)
        whole = self.node("Mul", [conv.output[0], self.constant(1 / step, f"{result}/steps")])
        halves = self.node("Add", [whole, self.constant(np.float32(0.5), "half")])
        floor = self.node("Floor", [halves])
        self.nodes.append(
            helper.make_node(
                "Mul", [floor, self.constant(step, f"{result}/step")], [result], f"{result}/real"
            )
        )

    def real(self, name: str) -> str:
        """Return the name of a tensor's floats, rounded to multiples of its step."""
        if name in self.exact:
            return name
        real = self.node("Cast", [self.integer(name)], to=TensorProto.FLOAT)
        return self.node("Mul", [real, self.constant(np.ldexp(np.float32(1), self.exponents[name]), "step")])

    def integers_of(self, layer: Layer, *, also_real: bool) -> None:
        """Write a convolution in integers, and with `also_real` its results as floats too."""
        site = layer.site
        along = (1, -1, 1, 1)
        inputs = [
            self.integer(site.source),
            self.constant(layer.weight, f"{site.result}/weight"),
            self.constant(layer.bias.reshape(along), f"{site.result}/bias"),
            self.constant(layer.right.reshape(along), f"{site.result}/right"),
            self.constant(np.int32(layer.low), f"{site.result}/low"),
            self.constant(np.int32(layer.high), f"{site.result}/high"),
        ]
        if site.residual:
            inputs += [
                self.integer(site.residual),
                self.constant(layer.left.reshape(along), f"{site.result}/left"),
            ]
        result = self.integers[site.result] = self.names.free(f"{site.result}/integer")
        self.exact.add(site.result)
        self.nodes.append(
            helper.make_node(
                SUMMED if site.residual else PLAIN, inputs, [result], site.name, domain=DOMAIN,
                strides=list(site.strides), pads=list(site.pads),
            )
        )  # fmt: skip
        if also_real:
            real = self.node("Cast", [result], to=TensorProto.FLOAT)
            scale = self.constant(
                np.ldexp(np.float32(1), self.exponents[site.result]), f"{site.result}/scale"
            )
            self.nodes.append(helper.make_node("Mul", [real, scale], [site.result], f"{site.result}/real"))

    def integer(self, name: str) -> str:
        """Return the name of a tensor's integers; write the rounding of floats if needed."""
        if name not in self.integers:
            steps = self.constant(np.ldexp(np.float32(1), -self.exponents[name]), f"{name}/steps")
            result = self.integers[name] = self.names.free(f"{name}/integer")
            self.nodes.append(helper.make_node(ROUND, [name, steps], [result], result, domain=DOMAIN))
        return self.integers[name]

    def node(self, operator: str, inputs: list[str], **attributes: int) -> str:
        name = self.names.free(f"{inputs[0]}/{operator.lower()}")
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, array: ArrayLike, like: str) -> str:
        name = self.names.free(like)
        self.stored.append(numpy_helper.from_array(np.asarray(array), name))
        return name


def _model(model: onnx.ModelProto, writer: _Writer) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    del graph.node[:], graph.value_info[:]
    graph.node.extend(writer.nodes)
    read = {name for node in writer.nodes for name in node.input} | {output.name for output in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend([*kept, *writer.stored])
    result.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    result.functions.extend([_rounding(), _convolution(summed=False), _convolution(summed=True)])
    result.ir_version = max(result.ir_version, 8)  # the first with functions of a graph's own
    return result


def _rounding() -> onnx.FunctionProto:
    """Return the ONNX function for rounding to the nearest step, halves upwards, clipped to 8 bits."""
    node = helper.make_node
    half, low, high = (numpy_helper.from_array(np.float32(number)) for number in (0.5, -HIGH, HIGH))
    body = [
        node("Mul", ["x", "steps"], ["many"]),
        node("Constant", [], ["half"], value=half),
        node("Add", ["many", "half"], ["more"]),
        node("Floor", ["more"], ["floors"]),
        node("Constant", [], ["low"], value=low),
        node("Constant", [], ["high"], value=high),
        node("Clip", ["floors", "low", "high"], ["clipped"]),
        node("Cast", ["clipped"], ["y"], to=TensorProto.INT8),
    ]
    return helper.make_function(DOMAIN, ROUND, ["x", "steps"], ["y"], body, [helper.make_opsetid("", _OPSET)])


def _convolution(*, summed: bool) -> onnx.FunctionProto:
    """Return the ONNX function for an integer convolution: 32-bit sums, rounded once by floor in float64."""
    node = helper.make_node
    conv = node("ConvInteger", ["x", "weight"], ["products"])
    for name in ("strides", "pads"):
        reference = onnx.AttributeProto(name=name, ref_attr_name=name, type=onnx.AttributeProto.INTS)
        conv.attribute.append(reference)
    body = [conv, node("Add", ["products", "bias"], ["sums"])]
    total = "sums"
    two = numpy_helper.from_array(np.float64(2), "two")
    body.append(node("Constant", [], ["two"], value=two))
    if summed:
        body += [
            node("Cast", ["left"], ["left.real"], to=TensorProto.DOUBLE),
            node("Pow", ["two", "left.real"], ["factor"]),
            node("Cast", ["residual"], ["residual.real"], to=TensorProto.DOUBLE),
            node("Mul", ["residual.real", "factor"], ["residual.scaled"]),
            node("Cast", ["residual.scaled"], ["residual.sums"], to=TensorProto.INT32),
            node("Add", ["sums", "residual.sums"], ["total"]),
        ]
        total = "total"
    body += [
        node("Cast", [total], ["real"], to=TensorProto.DOUBLE),
        node("Cast", ["right"], ["right.real"], to=TensorProto.DOUBLE),
        node("Pow", ["two", "right.real"], ["step"]),
        node("Div", ["real", "step"], ["steps"]),
        node("Floor", ["steps"], ["floors"]),
        node("Cast", ["low"], ["low.real"], to=TensorProto.DOUBLE),
        node("Cast", ["high"], ["high.real"], to=TensorProto.DOUBLE),
        node("Clip", ["floors", "low.real", "high.real"], ["clipped"]),
        node("Cast", ["clipped"], ["y"], to=TensorProto.INT8),
    ]
    inputs = [*_INPUTS, *(["residual", "left"] if summed else [])]
    opsets = [helper.make_opsetid("", _OPSET)]
    return helper.make_function(
        DOMAIN, SUMMED if summed else PLAIN, inputs, ["y"], body, opsets, ["strides", "pads"]
    )

"""Builds the ONNX graph of a TensorFlow Lite network, value by value.

Each value of the file has a *stored* form, which is what TensorFlow Lite has in memory, and a *real* form,
the numbers that it means. They are the same unless the value is quantised. Either form is made once in each
layout that a reader asks for: so transposes appear only where two layouts meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import shortened
from toolchain.models.onnx_graph import Names
from toolchain.models.tflite.network import (
    TO_FIRST,
    TO_LAST,
    Bounds,
    ChannelOrder,
    Quantisation,
    TfliteNetwork,
    TfliteTensor,
    is_implied,
)
from toolchain.models.tflite.schema import ByteBudget

_SPARE = 1 << 26  # bytes of constants that a file of any size may ask for
_LONG = 100  # characters of a tensor's name: the names of nodes are made of shorter ones
_COPIES = 8  # of the file's bytes: int8 as float32, once computed and once stored


class OnnxGraph:
    """The nodes and constants made so far.

    Parameters
    ----------
    network
        What is translated.
    origin
        Names the file in errors.

    Attributes
    ----------
    constants
        Tensor -> its stored value, for tensors that do not depend on the inputs.
    nodes, initializers
        Content of the ONNX graph.
    stored_as
        Tensor and layout -> name of its stored form.
    names
        All names in use.
    zero_padded
        Tensor -> the one that it is with zeros around rows and columns, and their numbers.
    output_names
        Output -> its name in the finished graph, which nothing else gets.
    """

    def __init__(self, network: TfliteNetwork, origin: str) -> None:
        self.network, self.origin = network, origin
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.constants: dict[int, Array] = {
            tensor.index: np.frombuffer(tensor.data, np.dtype(tensor.dtype)).reshape(tensor.shape)
            for tensor in network.tensors
            if tensor.data is not None
        }
        self.stored_as: dict[tuple[int, ChannelOrder], str] = {}
        self.zero_padded: dict[int, tuple[TfliteTensor, list[tuple[int, int]]]] = {}
        self._real: dict[str, str] = {}
        self._ordered: dict[tuple[int, tuple[int, ...]], str] = {}
        self._rules: dict[int, list[str]] = {}
        most = _COPIES * network.stored_bytes + _SPARE
        self._budget = ByteBudget(
            origin,
            most,
            f"its constants take more than {most >> 20} MiB, as integers are copied for each of the readers",
            "convert the network with floats where many operators read the same weights",
        )
        self.names = Names()
        self.output_names = {index: "" for index in network.outputs}
        for index in network.inputs:
            self.define(index, self.names.free(_like(self.tensor(index))))
        for index in self.output_names:
            self.output_names[index] = self.names.free(_like(self.tensor(index)))

    def tensor(self, index: int) -> TfliteTensor:
        """Return a tensor of the file."""
        return self.network.tensors[index]

    def emit(
        self, kind: str, inputs: Sequence[str], like: str = "", outputs: int = 1, **attributes: Any
    ) -> str:
        """Add a node; return the name of its first output. Others are named by `outputs_of`."""
        first = self.names.free(f"{like if 0 < len(like) <= _LONG else 'value'}.{kind}")
        more = [f"{first}.{place}" for place in range(1, outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), [first, *more], name=first, **attributes))
        return first

    def constant(self, array: Array, like: str = "constant") -> str:
        """Add a constant; return its name.

        Raises
        ------
        UsageError
            The constants are many times the file.
        """
        self._budget.spend(array.nbytes)
        name = self.names.free(like if len(like) <= _LONG else "constant")
        self.initializers.append(
            numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        )
        return name

    def integers(self, values: Sequence[int]) -> str:
        """Add a constant vector of int64, as ONNX's shapes, axes and pads are; return its name."""
        return self.constant(np.array(values, np.int64))

    def float(self, value: float) -> str:
        """Add a constant float32; return its name."""
        return self.constant(np.array(value, np.float32))

    def layout_of(self, index: int) -> ChannelOrder:
        """Return the layout in which a value exists; `LAST` if in both."""
        first, last = (
            (index, layout) in self.stored_as for layout in (ChannelOrder.FIRST, ChannelOrder.LAST)
        )
        return ChannelOrder.FIRST if first and not last else ChannelOrder.LAST

    def stored(self, index: int, layout: ChannelOrder = ChannelOrder.LAST) -> str:
        """Return the name of a value's stored form.

        Raises
        ------
        UsageError
            No operator has computed it yet.
        """
        tensor = self.tensor(index)
        if tensor.rank != 4:
            layout = ChannelOrder.LAST
        key = (index, layout)
        if key in self.stored_as:
            return self.stored_as[key]
        if index in self.constants:
            array = self.constants[index]
            name = self.constant(
                array.transpose(TO_FIRST) if layout is ChannelOrder.FIRST else array, _like(tensor)
            )
            if tensor.quantisation is None:
                self.stored_as[key] = name
            return name  # a copy for each reader: onnxruntime trips over integers and zero points of two
        other = (index, ChannelOrder.FIRST if layout is ChannelOrder.LAST else ChannelOrder.LAST)
        if other not in self.stored_as:
            raise UsageError(
                f"{self.origin}: broken: tensor {index} ({shortened(tensor.name)!r}) is read before it is "
                "computed",
                "convert it again",
            )
        real = self._turned(self.real(index, other[1]), tensor, layout)
        self.stored_as[key] = (
            self._rounded(real, tensor.quantisation, tensor) if tensor.quantisation else real
        )
        return self.stored_as[key]

    def real(self, index: int, layout: ChannelOrder = ChannelOrder.LAST) -> str:
        """Return the name of the numbers that a value means."""
        tensor, name = self.tensor(index), self.stored(index, layout)
        rule = tensor.quantisation
        if rule is None:
            return name
        axis = rule.axis
        if axis is not None and layout is ChannelOrder.FIRST and tensor.rank == 4:
            axis = TO_LAST[axis]
        if name not in self._real:
            self._real[name] = self._dequantised(name, tensor, rule, axis)
        return self._real[name]

    def weights(self, index: int, order: Sequence[int]) -> str:
        """Return the name of the numbers of a constant with its dimensions in another order.

        Raises
        ------
        UsageError
            The tensor is computed by the network.
        """
        tensor = self.tensor(index)
        key, rule = (index, tuple(order)), tensor.quantisation
        if key in self._ordered:
            return self._ordered[key]
        name = self.constant(self.array(index, "weights").transpose(order), _like(tensor))
        if rule is None:
            self._ordered[key] = name
            return name
        axis = None if rule.axis is None else list(order).index(rule.axis)
        return self._dequantised(name, tensor, rule, axis)

    def array(self, index: int, what: str) -> Array:
        """Return the stored form of a constant.

        Raises
        ------
        UsageError
            The tensor is computed by the network; `what` says what it is for.
        """
        if index not in self.constants:
            raise UsageError(
                f"{self.origin}: tensor {index} ({shortened(self.tensor(index).name)!r}) is computed by the "
                f"network; as {what} only a constant can be built",
                "convert the network with fixed shapes",
            )
        return self.constants[index]

    def define(self, index: int, name: str, layout: ChannelOrder = ChannelOrder.LAST) -> None:
        """Register `name` as the stored form of a value.

        Raises
        ------
        UsageError
            The value is defined already.
        """
        key = (index, layout if self.tensor(index).rank == 4 else ChannelOrder.LAST)
        self._check_new(index, key)
        self.stored_as[key] = name

    def make_constant(self, index: int, shape: Sequence[int], compute: Callable[[], Array]) -> None:
        """Register a value as a constant, which is computed after its size was checked.

        Parameters
        ----------
        shape
            The shape of what `compute` returns.

        Raises
        ------
        UsageError
            The value is defined already, or the constants are many times the file.
        ValueError
            It is declared with another shape or type.
        """
        tensor = self.tensor(index)
        self._check_new(index, (index, ChannelOrder.LAST))
        if tuple(shape) != tensor.shape:
            raise ValueError(f"a constant {list(shape)} where {list(tensor.shape)} is declared")
        self._budget.spend(math.prod(shape) * np.dtype(tensor.dtype).itemsize)
        array = compute()
        if array.dtype != tensor.dtype:
            raise ValueError(f"a constant of {array.dtype} where {tensor.dtype} is declared")
        self.constants[index] = array

    def _check_new(self, index: int, key: tuple[int, ChannelOrder]) -> None:
        if key in self.stored_as or index in self.constants:
            raise UsageError(
                f"{self.origin}: broken: tensor {index} ({shortened(self.tensor(index).name)!r}) is computed "
                "twice",
                "convert it again",
            )

    def result(
        self,
        index: int,
        real: str,
        layout: ChannelOrder = ChannelOrder.LAST,
        bounds: Bounds = (-math.inf, math.inf),
    ) -> None:
        """Define a value by the numbers that it means, limited to `bounds`, rounded if it is quantised."""
        tensor = self.tensor(index)
        rule = tensor.quantisation
        if rule is None:
            self.define(index, self.limited(real, bounds, tensor), layout)
            return
        self._check_rounds(tensor, rule)
        if not is_implied(bounds, rule, tensor.dtype):  # in steps of its own, so that the sums stay integers
            real = self.limited(self.settled(real, tensor), bounds, tensor)
        self.define(index, self._rounded(real, rule, tensor), layout)

    def settled(self, real: str, tensor: TfliteTensor) -> str:
        """Return numbers rounded to a quantised tensor's steps; the same numbers if it is not quantised.

        Files in QDQ form round between any two operators, and readers of that form expect it.
        """
        rule = tensor.quantisation
        if rule is None:
            return real
        return self._dequantised(self._rounded(real, rule, tensor), tensor, rule, None)

    def limited(self, real: str, bounds: Bounds, tensor: TfliteTensor) -> str:
        """Return numbers of a tensor clipped to `bounds`; the same numbers if the bounds are infinite."""
        if bounds == (-math.inf, math.inf):
            return real
        if bounds == (0.0, math.inf):
            return self.emit("Relu", [real], _like(tensor))
        return self.emit("Clip", [real, *(self.float(bound) for bound in bounds)], _like(tensor))

    def _turned(self, real: str, tensor: TfliteTensor, layout: ChannelOrder) -> str:
        """Return a value of rank 4 in the other layout."""
        order = TO_FIRST if layout is ChannelOrder.FIRST else TO_LAST
        count, height, width, channels = tensor.shape
        if channels == 1 or height == width == 1:  # nothing moves in memory
            shape = tensor.shape if layout is ChannelOrder.LAST else (count, channels, height, width)
            return self.emit("Reshape", [real, self.integers(shape)], _like(tensor))
        return self.emit("Transpose", [real], _like(tensor), perm=order)

    def _dequantised(self, name: str, tensor: TfliteTensor, rule: Quantisation, axis: int | None) -> str:
        return self.emit(
            "DequantizeLinear",
            [name, *self._rule(tensor, rule)],
            _like(tensor),
            **({} if axis is None else {"axis": axis}),
        )

    def _rounded(self, real: str, rule: Quantisation, tensor: TfliteTensor) -> str:
        self._check_rounds(tensor, rule)
        return self.emit("QuantizeLinear", [real, *self._rule(tensor, rule)], _like(tensor))

    def _check_rounds(self, tensor: TfliteTensor, rule: Quantisation) -> None:
        if rule.axis is not None or tensor.dtype == "int32":
            raise UsageError(
                f"{self.origin}: tensor {tensor.index} ({shortened(tensor.name)!r}) is computed, quantised "
                f"{'in int32' if rule.axis is None else 'by channel'}: only one scale and 8 bits are built",
                "quantise the network again",
            )

    def _rule(self, tensor: TfliteTensor, rule: Quantisation) -> list[str]:
        """Return the names of a quantised tensor's scale and zero point; int32 has none."""
        if tensor.index not in self._rules or tensor.index in self.constants:
            names = [self.constant(rule.scale, f"{_like(tensor)}.scale")]
            if tensor.dtype != "int32" or rule.zero.any():
                names.append(self.constant(rule.zero.astype(tensor.dtype), f"{_like(tensor)}.zero"))
            self._rules[tensor.index] = names
        return self._rules[tensor.index]

    def bias(self, index: int, x: TfliteTensor, w: TfliteTensor) -> str:
        """Return the name of a bias; in int32 it counts steps of products of `x` and `w`, as kernels do."""
        tensor = self.tensor(index)
        if x.quantisation is None or w.quantisation is None or tensor.dtype != "int32":
            return self.real(index)
        scale = (x.quantisation.scale * w.quantisation.scale).astype(np.float32)
        steps = self.constant(self.array(index, "a bias"), _like(tensor))
        axis = {"axis": 0} if scale.ndim else {}
        name = self.constant(scale, f"{_like(tensor)}.scale")
        return self.emit("DequantizeLinear", [steps, name], _like(tensor), **axis)


def outputs_of(first: str, count: int) -> list[str]:
    """Return the names of the outputs of a node that `OnnxGraph.emit` made."""
    return [first, *(f"{first}.{place}" for place in range(1, count))]


def _like(tensor: TfliteTensor) -> str:
    return tensor.name or f"tensor_{tensor.index}"

"""Graphs with one fault each, or what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from tests.models.graphs import graph_of, tensor_info

node = helper.make_node
FLOATS = (1, 4)


def network(
    *nodes: onnx.NodeProto,
    x: tuple[Any, ...] = FLOATS,
    kind: int = T.FLOAT,
    y: int = T.FLOAT,
    opset: int = 21,
    stored: list[onnx.TensorProto] | None = None,
    **weights: np.ndarray,
) -> onnx.ModelProto:
    """Return nodes from `x` to `y`, with stored tensors."""
    model = graph_of(nodes, [tensor_info("x", x, kind)], [tensor_info("y", None, y)], weights, opset)
    model.graph.initializer.extend(stored or [])
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def packed(name: str, code: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    """Return a stored tensor of ones of a type that numpy lacks."""
    return helper.make_tensor(name, code, shape, [1] * int(np.prod(shape)))


def of(domain: str, model: onnx.ModelProto, version: int = 1) -> onnx.ModelProto:
    """Return a model that declares another domain, too."""
    model.opset_import.append(helper.make_opsetid(domain, version))
    return model


def with_output(model: onnx.ModelProto, type_: onnx.TypeProto) -> onnx.ModelProto:
    model.graph.output[0].type.CopyFrom(type_)
    return model


def changed(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    change(model)
    return model


def loop() -> onnx.ModelProto:
    """Return a loop that goes on while its sum is small."""
    body = helper.make_graph(
        [
            node("Add", ["s", "s"], ["t"]),
            node("ReduceSum", ["t"], ["r"], keepdims=0),
            node("Less", ["r", "most"], ["go"]),
        ],
        "body",
        [tensor_info("i", (), T.INT64), tensor_info("c", (), T.BOOL), tensor_info("s", FLOATS)],
        [tensor_info("go", (), T.BOOL), tensor_info("t", FLOATS)],
    )
    return network(
        node("Loop", ["", "yes", "x"], ["y"], "while", body=body), yes=np.array(True), most=np.float32(9)
    )


def external(location: str, length: int) -> onnx.TensorProto:
    """Return a tensor of float32 that is stored in another file."""
    tensor = T(name="w", data_type=T.FLOAT, dims=[length // 4], data_location=T.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def two_steps(
    zero: onnx.TensorProto | np.ndarray, scale: np.ndarray | None = None, **own: Any
) -> onnx.ModelProto:
    """Return a file that rounds its input by a zero point, and goes back."""
    scale = np.asarray(0.1, np.float32) if scale is None else scale
    stored = [zero] if isinstance(zero, onnx.TensorProto) else [numpy_helper.from_array(zero, "z")]
    there = node("QuantizeLinear", ["x", "s", "z"], ["q"], "round", **own)
    back = node("DequantizeLinear", ["q", "s", "z"], ["y"], "back", **own)
    return network(there, back, s=scale, stored=stored)


def cast(code: int, opset: int = 21) -> onnx.ModelProto:
    """Return a file that computes in another type."""
    there = node("Cast", ["x"], ["q"], "small", to=code)
    return network(there, node("Cast", ["q"], ["y"], to=T.FLOAT), opset=opset)


def sparse(last: int) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.ones(2, np.float32), "w")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, last]), "i"), [4])


def branches() -> onnx.ModelProto:
    """Return a branch by a value, of two shapes."""
    cut = helper.make_graph([node("Slice", ["x", "b", "e", "a"], ["t"])], "t", [], [tensor_info("t", None)])
    whole = helper.make_graph([node("Neg", ["x"], ["u"])], "e", [], [tensor_info("u", None)])
    return network(
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Cast", ["m"], ["c"], to=T.BOOL),
        node("If", ["c"], ["y"], "either", then_branch=cut, else_branch=whole),
        b=np.array([0]),
        e=np.array([2]),
        a=np.array([1]),
    )


def recursive() -> onnx.ModelProto:
    """Return a file with a function that calls itself."""
    model = of("own", network(node("f", ["x"], ["y"], "call", domain="own")))
    body, sets = [node("f", ["a"], ["b"], domain="own")], [helper.make_opsetid("own", 1)]
    model.functions.append(helper.make_function("own", "f", ["a"], ["b"], body, sets))
    return model


def relu(**others: Any) -> onnx.ModelProto:
    return network(node("Relu", ["x"], ["y"], "relu"), **others)


def pair_of(kind: str) -> onnx.ModelProto:
    tensor = helper.make_tensor_type_proto(T.FLOAT, FLOATS)
    if kind == "optional":
        return with_output(network(node("Optional", ["x"], ["y"])), helper.make_optional_type_proto(tensor))
    return with_output(
        network(node("SequenceConstruct", ["x", "x"], ["y"])), helper.make_sequence_type_proto(tensor)
    )


def weighted(operator: str, weight: np.ndarray, x: tuple[int, ...] = FLOATS, **own: Any) -> onnx.ModelProto:
    """Return a node of an input and a weight."""
    return network(node(operator, ["x", "w"], ["y"], operator.lower(), **own), x=x, w=weight)


def outside(location: str, length: int = 16) -> onnx.ModelProto:
    return network(node("Add", ["x", "w"], ["y"]), stored=[external(location, length)])


def stored(**fields: Any) -> onnx.ModelProto:
    return network(node("Add", ["x", "w"], ["y"]), stored=[T(name="w", dims=[4], **fields)])

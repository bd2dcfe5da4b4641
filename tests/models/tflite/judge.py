"""What TensorFlow Lite's reference kernels compute of a file, beside onnxruntime on our graph of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.models.tflite.writer import Writer
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.integer_sessions import ask_for_integers
from toolchain.models.tflite.convert import convert, read_tflite
from toolchain.models.tflite.schema import read_network


def drawn(shape: Any, dtype: Any, seed: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Return random values: all integers of 8 bits, and floats between bounds."""
    generator, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "f":
        return generator.uniform(low, high, shape).astype(kind)
    if kind.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    ends = np.iinfo(kind)
    return generator.integers(max(ends.min, -200), min(ends.max, 200) + 1, shape).astype(kind)


def reference(data: bytes, inputs: list[np.ndarray], *, usual: bool = False) -> list[np.ndarray]:
    """Return what LiteRT's BUILTIN_REF computes, or its usual kernels."""
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if usual else OpResolverType.BUILTIN_REF
    judge = Interpreter(model_content=data, experimental_op_resolver_type=kernels, num_threads=1)
    judge.allocate_tensors()
    for detail, array in zip(judge.get_input_details(), inputs, strict=True):
        judge.set_tensor(detail["index"], array)
    judge.invoke()
    return [judge.get_tensor(detail["index"]) for detail in judge.get_output_details()]


def computed(data: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return what onnxruntime computes of our graph, asked as the product asks it."""
    return run(read_tflite(data, "x.tflite"), inputs)


def run(model: onnx.ModelProto, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return what onnxruntime computes of a graph, asked as the product asks it."""
    names = [value.name for value in model.graph.input]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    graph = ask_for_integers(options, model)
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(zip(names, inputs, strict=True))))


def layers(data: bytes, inputs: list[np.ndarray]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield each layer's name, its result by the reference kernels, and ours of the same inputs."""
    judge = Interpreter(
        model_content=data,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
        num_threads=1,
    )
    judge.allocate_tensors()
    for detail, array in zip(judge.get_input_details(), inputs, strict=True):
        judge.set_tensor(detail["index"], array)
    judge.invoke()
    network = read_network(data, "x.tflite")
    for operator in network.operators:
        read = dict.fromkeys(index for index in operator.inputs if index is not None)
        given = [index for index in read if network.tensors[index].data is None]
        layer = replace(network, operators=(operator,), inputs=tuple(given), outputs=operator.outputs)
        ours = run(convert(layer, "x.tflite"), [judge.get_tensor(index) for index in given])
        for index, array in zip(operator.outputs, ours, strict=True):
            yield str(operator), judge.get_tensor(index), array


def compare(
    writer: Writer,
    *,
    steps: int = 1,
    equal: float = 0.0,
    seed: int = 0,
    low: float = -2.0,
    high: float = 2.0,
    usual: bool = False,
) -> None:
    """Assert that both agree: integers within `steps`, of which a share is equal, floats to 1e-5.

    Parameters
    ----------
    low, high
        Of floats that go in.
    usual
        Whether the judge's usual kernels are asked.
    """
    data = writer.finish()
    given = [writer.tensors[index] for index in writer.inputs]
    inputs = [drawn(each.shape, each.dtype, seed + place, low, high) for place, each in enumerate(given)]
    for right, ours in zip(reference(data, inputs, usual=usual), computed(data, inputs), strict=True):
        assert (ours.shape, ours.dtype) == (right.shape, right.dtype)
        if right.dtype.kind == "f":
            np.testing.assert_allclose(ours, right, 1e-5, 1e-5)
            continue
        off = np.abs(ours.astype(np.int64) - right.astype(np.int64))
        assert off.max() <= steps, f"{off.max()} steps off in {np.mean(off > steps):.2%}"
        assert np.mean(off == 0) >= equal, f"{np.mean(off == 0):.2%} equal"

"""Inputs to try a network with, and the outputs it ought to give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.rewrites.judge import loaded
from toolchain.errors import UsageError
from toolchain.models.judging.reference import reference_outputs, sample_inputs


def test_samples_follow_seed_and_dtype(tmp_path: Path) -> None:
    inputs = {"f": TensorProto.FLOAT, "d": TensorProto.DOUBLE, "i": TensorProto.INT64, "b": TensorProto.BOOL}
    casts = [helper.make_node("Cast", [name], [name + "_out"], to=TensorProto.FLOAT) for name in inputs]
    graph = graph_of(
        casts,
        [tensor_info(name, (50,), code) for name, code in inputs.items()],
        [tensor_info(name + "_out", (50,)) for name in inputs],
        {},
    )
    model = loaded(graph, tmp_path)
    sample = sample_inputs(model, 3)
    assert [array.dtype.name for array in sample.values()] == ["float32", "float64", "int64", "bool"]
    assert all((sample_inputs(model, 3)[name] == array).all() for name, array in sample.items())
    assert (sample_inputs(model, 4)["f"] != sample["f"]).any() and abs(sample["f"].mean()) < 0.5
    assert set(np.unique(sample["i"])) <= {0, 1, 2, 3}
    with pytest.raises(UsageError, match="--input f: dtype float64"):
        reference_outputs(model, {**sample, "f": sample["d"]})


def test_weights_that_are_no_numbers_are_told_as_such(tmp_path: Path) -> None:
    graph = classifier()
    weight = onnx.numpy_helper.to_array(graph.graph.initializer[0]).copy()
    weight[1, 2, 0, 0] = np.nan
    graph.graph.initializer[0].raw_data = weight.tobytes()
    model = loaded(graph, tmp_path)
    with pytest.raises(UsageError, match=r"its tensor 'conv.weight' holds NaN in 1 of 108 places"):
        reference_outputs(model, sample_inputs(model))

"""Compares a network as it is imported with onnxruntime's result for the graph as it came."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from toolchain.errors import UsageError
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions


def loaded(graph: onnx.ModelProto, folder: Path, **options: object) -> Model:
    """Return the model as it is loaded from a file."""
    path = folder / "network.onnx"
    onnx.save(graph, path)
    return load_model(str(path), ModelOptions(**options))


def refused(graph: onnx.ModelProto, folder: Path, **options: object) -> UsageError:
    """Return the error that the model is refused with."""
    with pytest.raises(UsageError) as caught:
        loaded(graph, folder, **options)
    return caught.value


def assert_same(
    model: Model, tolerance: float = 1e-5, *, steps: int = 0, inputs: dict[str, np.ndarray] | None = None
) -> None:
    """Assert that the imported network computes what onnxruntime computes.

    Parameters
    ----------
    steps
        How far integers may be off.
    inputs
        None: those that a build makes.
    """
    inputs = sample_inputs(model) if inputs is None else inputs
    expected = reference_outputs(model, inputs)
    machine = relax.VirtualMachine(tvm.compile(model.module, "llvm"), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(array) for array in inputs.values()))
    results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    for (name, wanted), got in zip(expected.items(), results, strict=True):
        assert got.numpy().dtype == wanted.dtype, name
        exact = wanted.dtype.kind in "iu"
        rtol, atol = (0.0, steps) if exact else (tolerance, tolerance)
        found, right = (array.astype(np.float64) for array in (got.numpy(), wanted))
        np.testing.assert_allclose(found, right, rtol, atol, err_msg=name)

"""Compares two forms of a network in onnxruntime, where the reference cannot come from the file itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.reading.opsets import with_known_opsets

ALIKE = 1e-4
"""Largest difference of two forms, relative to an output's largest value.

Both run unoptimised on one thread and mostly give equal bits; a form that is folded sums in another order.
"""

ALIKE_IN_HALVES = 2e-2
"""The same for a network of float16, whose other form may compute in float32."""


def check_alike(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    inputs: Mapping[str, Array],
    frozen: Mapping[str, Array],
    step: str,
    origin: str,
    tolerance: float = ALIKE,
) -> str:
    """Check that two forms of a network give equal outputs.

    Parameters
    ----------
    inputs
        A sample for the inputs of both.
    frozen
        Values of inputs of `before` that may be constants of `after`.
    step
        What makes `after` of `before`, for messages.

    Returns
    -------
    str
        Empty; or why onnxruntime cannot run `before`, which so proves nothing.

    Raises
    ------
    ToolchainError
        An output differs: the step changes what the network computes.
    """
    names = [output.name for output in after.graph.output]
    try:
        wanted = _computed(before, names, {**inputs, **frozen})
    except Exception as error:  # onnxruntime's errors have no common parent
        return first_line(error)
    stay = {value.name for value in after.graph.input}
    found = _computed(after, names, {k: v for k, v in {**inputs, **frozen}.items() if k in stay})
    for name, due, got in zip(names, wanted, found, strict=True):
        if due.shape != got.shape or due.dtype.kind != got.dtype.kind:
            far = f"is {got.dtype}{list(got.shape)} instead of {due.dtype}{list(due.shape)}"
        elif (off := difference(due, got)) > tolerance:
            far = f"is off by {off:.2g} of its largest value"
        else:
            continue
        raise ToolchainError(
            f"{origin}: {step} changes what the network computes: output {name!r} {far} in onnxruntime",
            "this is a fault of the toolchain: report it with the file; `toolchain model inspect` lists its "
            "operators",
        )
    return ""


def difference(due: Array, got: Array) -> float:
    """Return the largest difference relative to the largest finite value, if that is not 0.

    It is infinite if NaN or infinity lie elsewhere, or integers differ.
    """
    if due.dtype.kind != "f":
        return 0.0 if np.array_equal(due, got) else float("inf")
    due, got = due.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(due)
    if not np.array_equal(due[~finite], got[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return float("inf")
    far = float(np.abs(due[finite] - got[finite]).max(initial=0.0))
    largest = float(np.abs(due[finite]).max(initial=0.0))
    return far / largest if largest else far


def _computed(model: onnx.ModelProto, names: list[str], inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    known = with_known_opsets(model).SerializeToString()
    session = onnxruntime.InferenceSession(known, options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(names, dict(inputs))
    return results

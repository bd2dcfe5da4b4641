"""Compares two forms of a network in onnxruntime, where the reference cannot come from the file itself."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.deviation import Ends, deviation, parts_of
from toolchain.models.options import MOST_PARTS
from toolchain.models.reading.onnx_file import with_known_opsets
from toolchain.quantities import counted

ALIKE = 1e-4
"""Largest difference of two forms, relative to the largest value of an output or of a part of it.

Both run unoptimised on one thread and mostly give equal bits; a form that is folded sums in another order.
"""

ALIKE_IN_HALVES = 2e-2
"""The same for a network of float16, whose other form may compute in float32."""

_FLOAT32 = 1e-3  # the tolerance for which the least scales of `deviation` are made


def check_alike(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    inputs: Mapping[str, Array],
    frozen: Mapping[str, Array],
    step: str,
    origin: str,
    tolerance: float = ALIKE,
    *,
    joined: Mapping[str, Ends],
    softmax_outputs: Set[str],
) -> str:
    """Check that two forms of a network give equal outputs.

    Parameters
    ----------
    inputs
        A sample for the inputs of both.
    frozen
        Values of inputs of `before` that may be constants of `after`.
    step
        Name of the step that turned `before` into `after`, for messages.
    joined
        The parts of which outputs are joined, by output: each part is compared in its own scale.
    softmax_outputs
        Names of the outputs that are probabilities, which are compared by their logarithms.

    Returns
    -------
    str
        Empty; or why onnxruntime cannot run `before`, so that nothing was compared.

    Raises
    ------
    ToolchainError
        An output differs: the step changes what the network computes.
    """
    names = [output.name for output in after.graph.output]
    try:
        expected = _computed(before, names, {**inputs, **frozen})
    except Exception as error:  # onnxruntime's errors have no common parent
        return first_line(error)
    stay = {value.name for value in after.graph.input}
    results = _computed(after, names, {k: v for k, v in {**inputs, **frozen}.items() if k in stay})
    for name, due, got in zip(names, expected, results, strict=True):
        if unlike := _unlike(due, got, joined.get(name), tolerance, softmax=name in softmax_outputs):
            raise ToolchainError(
                f"{origin}: {step} changes what the network computes: output {name!r} {unlike} in "
                "onnxruntime",
                "this is a fault of the toolchain: report it with the file; `toolchain model inspect` lists "
                "its operators",
            )
    return ""


def _unlike(due: Array, got: Array, joined: Ends | None, tolerance: float, *, softmax: bool) -> str:
    """Describe how an output differs from the expected one; empty if it is within the tolerance.

    NaN and infinities must be at the same indices, integers must be equal.
    """
    if due.shape != got.shape or due.dtype.kind != got.dtype.kind:
        return f"is {got.dtype}{list(got.shape)} instead of {due.dtype}{list(due.shape)}"
    if due.dtype.kind != "f":
        differing = int(np.count_nonzero(due != got))
        return f"differs in {counted(differing, 'value')}" if differing else ""
    finite = np.isfinite(due)
    if not np.array_equal(due[~finite], got[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return "is NaN or infinite at other places"
    due, got = np.where(finite, due, 0), np.where(finite, got, 0)
    softmax = softmax and due.dtype != np.float16  # whose small probabilities have few bits, or are 0
    ends = {} if softmax else parts_of(due, joined, MOST_PARTS)
    coarser = max(1.0, _FLOAT32 / tolerance)
    worst = deviation(got, due, ends, softmax=softmax, coarser=coarser)
    error = worst.relative if worst.scale else worst.absolute
    if error <= tolerance:
        return ""
    largest = "its largest value" if worst.part is None else f"the largest value of its part {worst.part}"
    return f"is off by {error:.2g} of {largest}"


def _computed(model: onnx.ModelProto, names: list[str], inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    known = with_known_opsets(model).SerializeToString()
    session = onnxruntime.InferenceSession(known, options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(names, dict(inputs))
    return results

"""Inputs to try a network with, and the outputs it ought to give: onnxruntime's, not ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import numpy_helper

from toolchain.errors import UsageError
from toolchain.foreign import first_line
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.judging.samples import sample
from toolchain.models.judging.sigmoid import sigmoid, sigmoid_inputs, with_outputs
from toolchain.models.reading.opsets import with_known_opsets
from toolchain.models.spec import check_inputs
from toolchain.models.walk import all_nodes, all_tensors

if TYPE_CHECKING:
    from toolchain.models.load import Model

ROUNDING = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""Operators around which onnxruntime's optimiser computes in integers, rounding otherwise than the graph."""


def sample_inputs(model: Model, seed: int = 0) -> dict[str, np.ndarray]:
    """Return an array for each input, the same for the same seed, name, shape and dtype.

    Floats are standard normal, integers small and not negative, booleans even.
    """
    return {spec.name: sample(spec, seed) for spec in model.inputs}


def reference_outputs(model: Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute the outputs with onnxruntime on the source graph, on one thread of this CPU.

    A Sigmoid that makes an output is computed here, from onnxruntime's values before it.

    Raises
    ------
    UsageError
        The inputs don't fit, onnxruntime cannot run the graph, or an output is NaN or infinite,
        which nothing can be compared with.
    """
    check_inputs(model.inputs, inputs)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # nothing: it would print names as they are; its error is caught below
    if any(node.op_type in ROUNDING for node in all_nodes(model.onnx.graph)):
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = [spec.name for spec in model.outputs]
    logits = sigmoid_inputs(model.onnx)
    asked = sorted({*names, *logits.values()})
    try:
        source = with_outputs(with_known_opsets(model.onnx), set(logits.values()))
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        results = dict(zip(asked, session.run(asked, {**inputs, **model.frozen}), strict=True))
    except Exception as error:  # onnxruntime's errors have no common parent
        raise UsageError(
            f"{model.source}: onnxruntime, which gives the reference, cannot run it: {first_line(error)}"
        ) from error
    outputs = {name: results[name] for name in names}
    for name, before in logits.items():
        outputs[name] = sigmoid(results[before]).reshape(outputs[name].shape)
    _check_finite(model, outputs)
    return outputs


def _check_finite(model: Model, outputs: dict[str, np.ndarray]) -> None:
    for name, array in outputs.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            _check_weights(model)
            raise UsageError(
                f"{model.source}: the sample input makes output {name!r} NaN or infinite in "
                f"{np.count_nonzero(~np.isfinite(array))} of {array.size} places, so that nothing can be "
                "verified with it",
                "hand over inputs that the network is made for: "
                + " ".join(f"--sample {spec.name}=FILE.npy" for spec in model.inputs),
            )


def _check_weights(model: Model) -> None:
    """Refuse weights that are no numbers, if that is why an output is none."""
    for tensor in all_tensors(model.onnx.graph):
        array = numpy_helper.to_array(tensor)
        count = np.count_nonzero(np.isnan(array)) if np.issubdtype(array.dtype, np.floating) else 0
        if count:
            raise UsageError(
                f"{model.source}: its tensor {tensor.name!r} holds NaN in {count} of {array.size} places, "
                "and so does an output",
                "export the network again, from weights that are numbers",
            )

"""Computes a network with onnxruntime, and explains why it cannot with some inputs."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.errors import UsageError
from toolchain.foreign import first_line
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.integer_sessions import ask_for_integers, rounded_softmaxes
from toolchain.models.judging.substitutes import with_substitutes
from toolchain.models.onnx_graph import all_nodes, all_tensors
from toolchain.models.output_kinds import TRANSPARENT
from toolchain.models.preparing.modernise import modernise
from toolchain.models.proof import check_alike
from toolchain.models.reading.onnx_file import with_known_opsets
from toolchain.models.rewrites.quantised.values import REAL, ROUND
from toolchain.models.samples import UnusableSampleError
from toolchain.quantities import counted

if TYPE_CHECKING:
    from toolchain.models.load import Model


# Exact sigmoids for outputs: near 0, onnxruntime's have a relative error of a tenth and more.
#
# Its approximation has an absolute error of about 1e-7. So a network with small probabilities for the
# sample, such as a wake-word detector, would be compared with a wrong reference.


def sigmoid_inputs(model: onnx.ModelProto) -> dict[str, str]:
    """Return output -> name of the float32 tensor of which the output is the Sigmoid."""
    makers = {output: node for node in model.graph.node for output in node.output}
    sigmoids = {}
    for output in model.graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in TRANSPARENT:
            node = makers.get(node.input[0])
        if node is None or node.op_type != "Sigmoid" or not _is_float32(output):
            continue
        if node.input[0] in makers:
            sigmoids[output.name] = node.input[0]
    return sigmoids


def with_outputs(model: onnx.ModelProto, names: set[str]) -> bytes:
    """Return the serialised model with more outputs.

    They are appended as a second message: protobuf merges consecutive messages, so no copy of the weights is
    needed.
    """
    listed = {output.name for output in model.graph.output}
    more = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in sorted(names - listed)]
    tail = onnx.ModelProto(graph=onnx.GraphProto(output=more))
    return bytes(model.SerializeToString() + tail.SerializeToString())


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)), computed in float64."""
    with np.errstate(over="ignore"):
        return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(np.float32)


def _is_float32(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.FLOAT)


Outputs = dict[str, np.ndarray]


class ReferenceSession:
    """A session of onnxruntime with a model's source graph, on one thread of this CPU.

    The graph is the file's as it came, so that whatever the toolchain does to it is under test. It is brought
    to operators of today (`preparing.modernise`) only if onnxruntime cannot load it, or if its own functions
    hold operators that are judged by others (`judging.substitutes`); the latter is compared with the file,
    with the first sample that it can use.

    If a Sigmoid produces an output, this class computes it from the value that onnxruntime gives for the
    Sigmoid's input: onnxruntime's own Sigmoid has a relative error of a tenth and more near 0.

    Attributes
    ----------
    computed_from
        What the outputs are computed from, in words. Whether functions that were written out compute the same
        is known after the first sample.

    Parameters
    ----------
    option
        Name of the command-line option with which users give their own inputs, such as `--sample`; the hints
        of errors name it.

    Raises
    ------
    UsageError
        onnxruntime cannot load the graph.
    """

    def __init__(self, model: Model, option: str) -> None:
        self._model, self._option = model, option
        self._unproven: onnx.ModelProto | None = None
        self.computed_from = model.judged
        graph = model.onnx
        if graph.functions:
            flat = modernise(graph, model.source)
            if is_judged_by_others(flat):
                self._unproven = graph = flat
                self.computed_from += ", its functions written out"
        try:
            self._begin(graph)
        except UsageError as error:
            flat = modernise(graph, model.source)
            if flat is graph:
                raise
            self._begin(flat)
            why = first_line(error.__cause__ or error)
            self.computed_from += f", brought to operators of today: onnxruntime cannot load it: {why}"

    def _begin(self, graph: onnx.ModelProto) -> None:
        self._graph = graph
        self._logits = sigmoid_inputs(graph)
        self._asked = sorted({*(spec.name for spec in self._model.outputs), *self._logits.values()})
        self._session = self._open(graph)

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> Outputs:
        """Return the outputs for given inputs.

        Raises
        ------
        UnusableSampleError
            onnxruntime cannot run the graph with these inputs, or an output is NaN or infinite and so cannot
            be compared.
        """
        why = self._prove(self._unproven, inputs) if self._unproven else ""
        try:
            values = self._run(self._session, inputs)
        except Exception as error:  # onnxruntime's errors have no common parent
            message = first_line(error)
            raise UnusableSampleError(
                f"{self._model.source}: onnxruntime, which gives the reference, cannot run it: {message}",
                f"hand over inputs that the network is made for: {self._typed()}",
                f"onnxruntime: {message.rpartition('Status Message: ')[2]}",
            ) from error
        if unlike := _not_finite(values):
            name, array = unlike[0]
            count = np.count_nonzero(~np.isfinite(array))
            reason = f"output {name!r} is NaN or infinite in {count} of {counted(array.size, 'place')}"
            blamed = self._blamed(inputs)
            raise UnusableSampleError(
                f"{self._model.source}: with the sample input {reason}, so that nothing can be verified with "
                f"it{blamed}",
                f"hand over inputs that the network is made for: {self._typed()}"
                + ("; or export the network again, from weights that are numbers" if blamed else ""),
                reason,
            )
        if self._unproven:  # once is enough; a sample whose outputs are NaN would have proved nothing
            self._unproven = None
            self.computed_from += (
                f"; onnxruntime cannot compute it with them: {why}"
                if why
                else ", which onnxruntime computes alike"
            )
        return values

    def _prove(self, flat: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> str:
        """Compare the file with its form without functions; return why onnxruntime cannot run the file."""
        model = self._model
        return check_alike(
            model.onnx,
            flat,
            inputs,
            model.frozen,
            "writing its functions out",
            model.source,
            joined=model.joined,
            softmax_outputs=model.softmax_outputs,
        )

    def _open(self, graph: onnx.ModelProto) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 4  # silent: it would print unescaped names; the error is caught below
        shapes = {spec.name: spec.shape for spec in self._model.inputs}
        shapes |= {name: array.shape for name, array in self._model.frozen.items()}
        graph = ask_for_integers(options, with_substitutes(graph, self._model.source, shapes))
        try:
            held = {*self._logits.values(), *rounded_softmaxes(graph)}
            source = with_outputs(with_known_opsets(graph), held)
            return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common parent
            raise UsageError(
                f"{self._model.source}: onnxruntime, which gives the reference, cannot load it: "
                f"{first_line(error)}",
                "export the network without what onnxruntime does not know, such as operators on rare types; "
                "or build a part of it: --outputs NAME",
            ) from error

    def _run(self, session: onnxruntime.InferenceSession, inputs: Mapping[str, np.ndarray]) -> Outputs:
        computed = session.run(self._asked, {**inputs, **self._model.frozen})
        results = dict(zip(self._asked, computed, strict=True))
        outputs = {spec.name: results[spec.name] for spec in self._model.outputs}
        for name, before in self._logits.items():
            outputs[name] = sigmoid(results[before]).reshape(outputs[name].shape)
        return outputs

    def _blamed(self, inputs: Mapping[str, np.ndarray]) -> str:
        """Return the name of a stored tensor with NaN, if zeros in place of NaN make the outputs finite."""
        if not any(_holds_nan(tensor) for tensor in all_tensors(self._graph.graph)):
            return ""
        copy = onnx.ModelProto()
        copy.CopyFrom(self._graph)
        blame = ""
        for tensor in filter(_holds_nan, all_tensors(copy.graph)):
            array = numpy_helper.to_array(tensor)
            blame = blame or (
                f": its tensor {tensor.name!r} holds NaN in {np.count_nonzero(np.isnan(array))} of "
                f"{counted(array.size, 'place')}"
            )
            tensor.CopyFrom(numpy_helper.from_array(np.where(np.isnan(array), 0, array), tensor.name))
        return "" if _not_finite(self._run(self._open(copy), inputs)) else blame

    def _typed(self) -> str:
        return " ".join(f"{self._option} {quote(spec.name)}=FILE.npy" for spec in self._model.inputs)


def is_judged_by_others(model: onnx.ModelProto) -> bool:
    """Whether a graph has operators that need substitutes, integer sessions or exact sigmoids."""
    integers = any(node.op_type in (ROUND, REAL, "DynamicQuantizeLSTM") for node in all_nodes(model.graph))
    return integers or bool(sigmoid_inputs(model)) or with_substitutes(model, "") is not model


def _not_finite(outputs: Outputs) -> list[tuple[str, np.ndarray]]:
    return [
        (name, array)
        for name, array in outputs.items()
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all()
    ]


def _holds_nan(tensor: onnx.TensorProto) -> bool:
    array = numpy_helper.to_array(tensor)
    return bool(np.issubdtype(array.dtype, np.floating) and np.isnan(array).any())

"""Quantises a float network to 8-bit integers with scales of any size, for CPUs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import version_converter

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import first_line, printable
from toolchain.models.folding.fold import fold
from toolchain.models.onnx_graph import Names, attributes_of, node_name, opset_of
from toolchain.models.preparing.infer_shapes import infer_shapes, with_explicit_pads
from toolchain.models.preparing.norms import fold_batch_norms
from toolchain.models.preparing.tensor_types import input_specs
from toolchain.models.quantising.affine_plan import (
    ANCHORS,
    Index,
    IntegerPlan,
    IntegerRole,
    limits,
    plan_integers,
)
from toolchain.models.quantising.affine_scales import TOP, Scale, calibrate
from toolchain.models.quantising.affine_writer import Writer
from toolchain.models.quantising.calibration import (
    Inputs,
    check_stored,
    choose_with_inputs,
    nothing_to_quantise,
)
from toolchain.models.quantising.result import Quantised, Watched, cost_of
from toolchain.models.rewrites.graph import Graph, Rule, apply_rules

# Rewrites float operators as products, average pools and convolutions, which have an integer form.

_EPSILON = 1e-5  # default of the attribute, https://onnx.ai/onnx/operators/onnx__BatchNormalization.html


def rules_for(index: Index) -> dict[str, Rule]:
    """Return the rules for a graph, by operator."""

    def biased(node: onnx.NodeProto, graph: Graph) -> bool:
        return dense_with_bias(node, graph, index)

    def alone(node: onnx.NodeProto, graph: Graph) -> bool:
        return batch_norm_alone(node, graph, index)

    return {"Add": biased, "BatchNormalization": alone, "ReduceMean": mean_of_images}


def dense_with_bias(node: onnx.NodeProto, graph: Graph, index: Index) -> bool:
    """Rewrite a sum of a MatMul and a stored bias as a Gemm, whose bias is added before rounding."""
    for product, bias in (node.input, reversed(node.input)):
        maker = index.makers.get(product)
        offset = graph.value(bias)
        if maker is None or offset is None or not index.read_once(product):
            continue
        dense = index.nodes[maker]
        weight = graph.value(dense.input[1]) if dense.op_type == "MatMul" else None
        shape = graph.shape(dense.input[0])
        if weight is None or weight.ndim != 2 or shape is None or len(shape) < 2 or not math.prod(shape):
            continue
        if offset.size not in (1, weight.shape[1]) or any(extent != 1 for extent in offset.shape[:-1]):
            continue  # a number for each row
        if offset.ndim > len(shape):  # the sum has more dimensions than the product
            continue
        terms = graph.constant(np.broadcast_to(offset.reshape(-1), weight.shape[1:]), bias)
        if len(shape) == 2:
            graph.emit("Gemm", [dense.input[0], dense.input[1], terms], node.output)
            return True
        rows = graph.reshape(dense.input[0], (math.prod(shape[:-1]), shape[-1]))
        gemm = graph.emit("Gemm", [rows, dense.input[1], terms])
        graph.reshape(gemm, (*shape[:-1], weight.shape[1]), node.output)
        return True
    return False


def mean_of_images(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite a ReduceMean over height and width as a GlobalAveragePool, as exporters write pools."""
    attributes, shape = attributes_of(node), graph.shape(node.input[0])
    axes = attributes.get("axes")
    if len(node.input) > 1 and node.input[1]:
        stored = graph.value(node.input[1])
        axes = None if stored is None else stored.tolist()
    # In three dimensions it may as well be a mean over features.
    if shape is None or len(shape) < 4 or axes is None or graph.dtype(node.input[0]) != "float32":
        return False
    if sorted(axis % len(shape) for axis in axes) != list(range(2, len(shape))):
        return False
    if attributes.get("keepdims", 1):
        graph.emit("GlobalAveragePool", [node.input[0]], node.output)
    else:
        graph.reshape(graph.emit("GlobalAveragePool", [node.input[0]]), shape[:2], node.output)
    return True


def batch_norm_alone(node: onnx.NodeProto, graph: Graph, index: Index) -> bool:
    """Rewrite a BatchNormalization that cannot be folded as a depthwise convolution with a 1x1 kernel."""
    attributes, shape = attributes_of(node), graph.shape(node.input[0])
    stored = [graph.value(name) for name in node.input[1:5]]
    if (
        attributes.get("training_mode", 0)
        or shape is None
        or len(shape) != 4
        or node.input[0] not in index.makers
    ):
        return False
    if any(tensor is None or tensor.dtype != np.float32 for tensor in stored):
        return False
    gamma, beta, mean, variance = (np.asarray(tensor, np.float64) for tensor in stored)
    factor = gamma / np.sqrt(variance + attributes.get("epsilon", _EPSILON))
    weight: Array = factor.reshape(-1, 1, 1, 1).astype(np.float32)
    bias: Array = (beta - mean * factor).astype(np.float32)
    inputs = [node.input[0], graph.constant(weight, node.input[1]), graph.constant(bias, node.input[2])]
    graph.emit("Conv", inputs, node.output, group=len(weight), kernel_shape=[1, 1])
    return True


# Brings a float graph to the form in which most of it can be integers.

OPSET = 13
"""The first operator set whose DequantizeLinear knows a scale for each channel."""


def simplified(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Return a static, folded graph with inferred shapes in operator set 13 or newer, batch norms folded.

    Batch norms are folded before anything is rounded: else a convolution is rounded before its batch norm,
    and once more behind it.

    Raises
    ------
    UsageError
        onnx cannot convert an older graph.
    """
    new = with_explicit_pads(infer_shapes(_with_opset(model, origin), origin))
    plain = infer_shapes(fold_batch_norms(new), origin)
    rewritten = apply_rules(plain, rules_for(Index(plain)), origin)
    if rewritten is plain:
        return plain
    return infer_shapes(_with_unlike_names(fold(rewritten, origin).model), origin)


def _with_unlike_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Rename nodes in place where several replace one: onnxruntime wants names that differ."""
    names = Names()
    for node in model.graph.node:
        node.name = names.free(node.name) if node.name else ""
    return model


def _with_opset(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    if opset_of(model) >= OPSET:
        return model
    try:
        converted = version_converter.convert_version(model, OPSET)
    except Exception as error:  # its C++ side has no error class of its own
        raise UsageError(
            f"{origin}: --dtype int8: it cannot be brought to operator set {OPSET}, the first with scales by "
            f"channel: {first_line(error)}",
            f"export it with opset_version={OPSET} or newer",
        ) from error
    return fold(converted, origin).model  # it makes nodes of attributes


# Finds which tensors must have the same scale.

Limits = tuple[float, float] | None


def shared_scales(index: Index, plan: IntegerPlan) -> dict[str, str]:
    """Return for each rounded tensor the tensor whose scale it shares: itself for most.

    Operators that only move integers keep their scale. The operands of a concatenation get the scale of its
    result if nothing else reads them, which saves a rounding and loses nothing: the concatenation's readers
    see this scale in any case. Where rounding implies a Relu or Clip, all operands must have the same limits,
    or integers of the common scale could exceed them.
    """
    moved: dict[str, str] = {}
    limited: dict[str, Limits] = {}
    for at, role in plan.roles.items():
        node = index.nodes[at]
        if role is IntegerRole.MOVE:
            moved.update({name: node.input[0] for name in node.output if name})
        elif role is IntegerRole.LIMIT:
            limited[node.output[0]] = limits(node, index)
    given: dict[str, str] = {}
    for at, role in plan.roles.items():
        if role is IntegerRole.CONCATENATION:
            result = index.nodes[at].output[0]
            operands = index.active(index.nodes[at])
            sources = {name: _last(moved, name) for name in operands}
            bounds = {limited.get(source) for source in sources.values()}
            if len(bounds) == 1:
                limited[result] = bounds.pop()
            for name, source in sources.items():
                if _read_here_alone(index, moved, name) and (result in limited or source not in limited):
                    given[source] = result
    return {name: _last(moved | given, name) for name in plan.rounded}


def _read_here_alone(index: Index, moved: Mapping[str, str], name: str) -> bool:
    """Whether one place alone reads a tensor and all tensors it was moved from; False behind a split."""
    while True:
        maker = index.makers.get(name)
        if not index.read_once(name) or (maker is not None and len(index.nodes[maker].output) > 1):
            return False
        if name not in moved:
            return True
        name = moved[name]


def _last(given: Mapping[str, str], name: str) -> str:
    while name in given:
        name = given[name]
    return name


_INTEGERS = ("DequantizeLinear", "DynamicQuantize", "QGemm", "QLinear", "QuantizeLinear")
"""Prefixes of the names of operators in quantised networks."""


def quantise(model: onnx.ModelProto, quantizer: str, images: Mapping[str, Path], origin: str) -> Quantised:
    """Quantise a network: uint8 activations with zero points, int8 weights with a scale for each channel.

    Parameters
    ----------
    model
        A static, folded float32 model.
    quantizer
        How the scales of activations are chosen: a key of `ranges.METHODS`.
    images
        Input -> `.npy` file for calibration; empty: seeded images.

    Returns
    -------
    Quantised
        Its graph is in QDQ form, as a file of a quantised network may be.

    Raises
    ------
    UsageError
        Nothing can be quantised, or is quantised already; a weight is no number; or the images do not fit.
    """
    _check_floats(model, origin)
    index = Index(simplified(model, origin))
    plan = plan_integers(index)
    if not any(role in ANCHORS for role in plan.roles.values()):
        raise nothing_to_quantise(plan.left, "it has no convolution and no dense layer", origin)
    _check_weights(index, plan, origin)
    shared = shared_scales(index, plan)

    def scales_for(samples: Sequence[Inputs]) -> dict[str, Scale]:
        return calibrate(index, plan, shared, quantizer, samples, origin)

    chosen = choose_with_inputs(input_specs(index.model), images, scales_for)
    writer = Writer(index, plan, chosen.result)
    graph = infer_shapes(writer.written(), origin)
    judge = partial(
        cost_of,
        index.model,
        graph,
        _watched(index, plan, writer, chosen.result),
        chosen.judging,
        origin,
        random=not images,
        quantizer=quantizer,
    )
    return Quantised(graph, _counts(plan), plan.left, judge)


def _watched(index: Index, plan: IntegerPlan, writer: Writer, scales: Mapping[str, Scale]) -> list[Watched]:
    return [
        Watched(
            node_name(index.nodes[at]),
            name,
            writer.integers[name],
            scales[name].step,
            scales[name].zero,
            0,
            TOP,
        )
        for at, name in sorted(plan.results.items())
    ]


def _counts(plan: IntegerPlan) -> dict[str, int]:
    counts = Counter(plan.roles.values())
    return {
        role.value: counts[role]
        for role in IntegerRole
        if counts[role] and role not in (IntegerRole.MOVE, IntegerRole.LIMIT)
    }


def _check_floats(model: onnx.ModelProto, origin: str) -> None:
    for node in model.graph.node:
        if node.op_type.startswith(_INTEGERS):
            raise UsageError(
                f"{origin}: --dtype int8: it is quantised already, by {node.op_type} "
                f"{printable(node_name(node))!r}",
                "build it without --dtype int8: its own integers are kept",
            )


def _check_weights(index: Index, plan: IntegerPlan, origin: str) -> None:
    for at, role in plan.roles.items():
        for name in filter(None, index.nodes[at].input[1:3] if role in ANCHORS else ()):
            check_stored(f"tensor {printable(name)!r}", index.array(name), origin)

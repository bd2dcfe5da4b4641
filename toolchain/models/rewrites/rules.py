"""The table of rewrite rules by operator."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.models.onnx_graph import attributes_of, node_name
from toolchain.models.rewrites import (
    fused,
    fused_attention,
    indexing,
    normalisation,
    resampling,
    sklearn,
    windows,
)
from toolchain.models.rewrites.graph import Graph, Rule
from toolchain.models.rewrites.normalisation import DEFINED, with_its_body
from toolchain.models.rewrites.quantised.integer_operators import RULES as QUANTISED

# Rewrites the operator that finds infinite values, `IsInf`.


def infinite_of_a_sign(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `IsInf` that detects only one sign of infinity, or neither, as a comparison with infinity."""
    attributes = attributes_of(node)
    positive, negative = attributes.get("detect_positive", 1), attributes.get("detect_negative", 1)
    if positive and negative:
        return False
    x = node.input[0]
    limit = np.inf if positive else -np.inf
    if not (positive or negative):  # no number is larger than infinity
        graph.emit("Greater", [x, graph.constant(np.asarray(np.inf, graph.dtype(x)))], node.output)
        return True
    graph.emit("Equal", [x, graph.constant(np.asarray(limit, graph.dtype(x)))], node.output)
    return True


# Rewrites Fourier transforms as products with a matrix of sines and cosines.

MOST_BYTES = 1 << 26
"""Largest size of one matrix. A transform of 2048 real values to 1025 complex ones takes 16 MiB."""


def fourier_transform(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `DFT` along one axis as a product of matrices; the last axis has real and imaginary part."""
    x = node.input[0]
    shape, attributes = graph.shape(x), attributes_of(node)
    length = graph.value(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if shape is None or (length is None and len(node.input) > 1 and node.input[1]):
        return False
    if graph.opset < 20:
        axis = attributes.get("axis", 1)
    elif len(node.input) > 2 and node.input[2]:
        stored = graph.value(node.input[2])
        if stored is None:
            return False
        axis = int(stored)
    else:
        axis = -2
    axis %= len(shape)
    given, parts = shape[axis], shape[-1]
    inverse, onesided = bool(attributes.get("inverse")), bool(attributes.get("onesided"))
    folded = inverse and onesided  # from half a spectrum to real values
    points = int(length) if length is not None else (2 * (given - 1) if folded else given)
    _check_size(node, graph, given * parts * points * 2)
    matrix = _inverse_of_half(given, points) if folded else _matrix(given, points, parts, inverse, onesided)
    results, values = matrix.shape[2:]
    # The axis before the last one, then both as one: a row of the product.
    order = [*(i for i in range(len(shape) - 1) if i != axis), axis, len(shape) - 1]
    moved = graph.emit("Transpose", [x], perm=order)
    outer = [shape[i] for i in order[:-2]]
    rows = graph.reshape(moved, [*outer, given * parts])
    weight = graph.constant(matrix.reshape(given * parts, results * values).astype(graph.dtype(x)))
    product = graph.emit("MatMul", [rows, weight])
    back = graph.reshape(product, [*outer, results, values])
    graph.emit("Transpose", [back], node.output, perm=list(np.argsort(order)))
    return True


def short_time_transform(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `STFT` of [batch, n, 1 or 2] as a convolution whose stride is the step between frames."""
    signal, step, window, length = [*node.input, "", ""][:4]
    shape, stride = graph.shape(signal), graph.value(step)
    if shape is None or stride is None or (length and graph.value(length) is None):
        return False
    if length:
        points = int(np.asarray(graph.value(length)))
    elif window and (known := graph.shape(window)):
        points = known[0]
    else:
        return False
    parts = shape[2] if len(shape) == 3 else 1
    onesided = bool(attributes_of(node).get("onesided", 1))
    _check_size(node, graph, points * parts * points * 2)
    matrix = _matrix(points, points, parts, False, onesided)  # [n, parts, k, 2]
    results = matrix.shape[2]
    kernel = matrix.transpose(3, 2, 1, 0).reshape(2 * results, parts, points)
    weight = graph.constant(kernel.astype(graph.dtype(signal)))
    if window:
        stored = graph.value(window)
        weight = (
            graph.emit("Mul", [weight, window])
            if stored is None
            else graph.constant((kernel * stored).astype(graph.dtype(signal)))
        )
    rows = graph.emit("Transpose", [graph.reshape(signal, [shape[0], shape[1], parts])], perm=[0, 2, 1])
    spectrum = graph.emit("Conv", [rows, weight], strides=[int(stride)], kernel_shape=[points])
    frames = (shape[1] - points) // int(stride) + 1
    split = graph.reshape(spectrum, [shape[0], 2, results, frames])
    graph.emit("Transpose", [split], node.output, perm=[0, 3, 2, 1])
    return True


def _check_size(node: onnx.NodeProto, graph: Graph, elements: int) -> None:
    if elements * 4 > MOST_BYTES:
        raise UsageError(
            f"{graph.origin}: unsupported use of {node.op_type} (node {node_name(node)!r}): "
            f"its matrix would have {elements * 4 >> 20} MiB",
            "compute the spectrum before the network, or with fewer points",
        )


def _matrix(given: int, points: int, parts: int, inverse: bool, onesided: bool) -> Array:
    """Return [n, part, k, part]: the weight of each value in each result; 0 beyond `points`."""
    results = points // 2 + 1 if onesided else points
    angle = 2 * np.pi * np.outer(np.arange(given), np.arange(results)) % (2 * np.pi * points) / points
    cosine, sine = np.cos(angle), np.sin(angle) * (-1 if inverse else 1)
    matrix = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1)[:, :parts]
    matrix[points:] = 0
    return matrix / points if inverse else matrix


def _inverse_of_half(given: int, points: int) -> Array:
    """Return [k, part, n, 1]: the real values of half a spectrum, whose other half is its conjugate."""
    used = points // 2 + 1
    angle = 2 * np.pi * np.outer(np.arange(given), np.arange(points)) / points
    twice = np.where((np.arange(given) == 0) | (2 * np.arange(given) == points), 1.0, 2.0)[:, None]
    matrix = np.stack([np.cos(angle) * twice, -np.sin(angle) * twice], 1)[..., None]
    matrix[used:] = 0
    return matrix / points


# Rewrites transposed convolutions with a given output shape.


def transposed_to_shape(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `ConvTranspose` with `output_shape`: compute the padding that gives that shape."""
    attributes = attributes_of(node)
    shape, weight = graph.shape(node.input[0]), graph.shape(node.input[1])
    requested = attributes.pop("output_shape", None)
    if requested is None or shape is None or weight is None:
        return False
    rank = len(shape) - 2
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    more = list(attributes.get("output_padding", [0] * rank))
    begins, ends = [], []
    upper = attributes.pop("auto_pad", b"NOTSET") == b"SAME_UPPER"
    for axis in range(rank):
        extent = (
            strides[axis] * (shape[2 + axis] - 1) + more[axis] + (weight[2 + axis] - 1) * dilations[axis] + 1
        )
        total = extent - requested[-rank:][axis]
        if total < 0:
            more[axis] -= total
            total = 0
        begin = total // 2 if upper else total - total // 2
        begins.append(begin)
        ends.append(total - begin)
    attributes |= {"pads": begins + ends, "output_padding": more}
    graph.emit("ConvTranspose", list(node.input), node.output, **attributes)
    return True


# Rewrites reductions that have no axes, and means of integers.

_OF_REALS = frozenset({"ReduceL2", "ReduceLogSum", "ReduceLogSumExp"})


def reduction(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite a reduction without axes: one of all axes or, with `noop_with_empty_axes`, of each element.

    The reduction of a single element is that of an axis of length one, such as its absolute value for
    `ReduceL1`. A mean of integers becomes their sum, divided as integers are: towards zero.

    Raises
    ------
    UsageError
        It takes roots or logarithms of integers.
    """
    attributes = attributes_of(node)
    x = node.input[0]
    shape = graph.shape(x)
    named = node.input[1] if len(node.input) > 1 else ""
    value = graph.value(named) if named else np.asarray(attributes.get("axes", ()), np.int64)
    if value is None or shape is None:
        return False
    whole = graph.dtype(x).startswith(("int", "uint"))
    if whole and node.op_type in _OF_REALS:
        raise UsageError(
            f"{graph.origin}: unsupported use of {node.op_type} (node {node_name(node)!r}): "
            "its input is of integers",
            "cast the input to float32 in the network, and the result back",
        )
    axes = [int(axis) % len(shape) for axis in value.reshape(-1)]
    keep = bool(attributes.get("keepdims", 1))
    if not axes and attributes.get("noop_with_empty_axes"):
        alone = graph.reshape(x, (1, *shape))
        graph.reduce(node.op_type, alone, [0], keep=False, outputs=node.output)
        return True
    if node.op_type == "ReduceMean" and whole:
        along = axes or list(range(len(shape)))
        total = graph.reduce("ReduceSum", x, along, keep=keep)
        count = np.prod([shape[axis] for axis in along], dtype=np.int64)
        graph.emit("Div", [total, graph.constant(count.astype(graph.dtype(x)))], node.output)
        return True
    if not axes and named:
        graph.emit(node.op_type, [x], node.output, keepdims=int(keep))
        return True
    return False


REDUCTIONS_RULES = dict.fromkeys(
    (
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    ),
    reduction,
)
"""Reduction operator -> `reduction`, the rule for all of them."""


# Removes `Dropout`, which is the identity in inference.


def without_dropout(node: onnx.NodeProto, graph: Graph) -> bool:
    """Replace `Dropout` by its input, and its mask, if it is read, by a constant.

    With TVM's own function there would be two outputs, which no rule of code generation handles.
    """
    if len(node.input) > 2 and node.input[2]:
        _check_inference(node, graph)
    if len(node.output) > 1 and node.output[1] in graph.readers:
        shape = graph.shape(node.input[0])
        if shape is None:
            return False
        # Since set 12 the mask marks kept values. Before, inference left it undefined: onnxruntime gives 0.
        kept = np.ones(shape, bool) if graph.opset >= 12 else np.zeros(shape, graph.dtype(node.output[1]))
        mask = graph.constant(kept)
        graph.emit("Identity", [mask], [node.output[1]])
    graph.emit("Identity", [node.input[0]], [node.output[0]])
    return True


def _check_inference(node: onnx.NodeProto, graph: Graph) -> None:
    training = graph.value(node.input[2])
    ratio = graph.value(node.input[1]) if node.input[1] else np.float32(0.5)
    never = training is not None and not training.any()
    if never or (ratio is not None and not np.any(ratio)):
        return
    raise UsageError(
        f"{graph.origin}: unsupported use of Dropout (node {node_name(node)!r}): in training mode it drops "
        "values at random",
        "export the network for inference, after model.eval() in PyTorch",
    )


RULES: dict[str, Rule] = {
    **dict.fromkeys(DEFINED, with_its_body),
    **fused.RULES,
    **fused_attention.RULES,
    **REDUCTIONS_RULES,
    **sklearn.RULES,
    **QUANTISED,
    "BatchNormalization": normalisation.batch_norm,
    "Col2Im": windows.columns_to_image,
    "Compress": indexing.compress,
    "Concat": indexing.concatenation,
    "DFT": fourier_transform,
    "ConvTranspose": transposed_to_shape,
    "Det": indexing.determinant,
    "Dropout": without_dropout,
    "EyeLike": indexing.eye_like,
    "IsInf": infinite_of_a_sign,
    "LayerNormalization": normalisation.layer_norm_with_statistics,
    "LpNormalization": normalisation.lp_normalisation,
    "LpPool": normalisation.lp_pool,
    "MaxPool": windows.max_pool_with_indices,
    "MaxUnpool": windows.max_unpool,
    "MeanVarianceNormalization": normalisation.mean_variance_normalisation,
    "OneHot": indexing.one_hot,
    "Pad": windows.padded,
    "Resize": resampling.resized,
    "RMSNormalization": normalisation.rms_norm_of_all,
    "RoiAlign": windows.roi_align,
    "SpaceToDepth": indexing.space_to_depth,
    "Split": indexing.split,
    "STFT": short_time_transform,
    "TopK": indexing.largest,
    "Upsample": resampling.resized,
}
"""Operator -> the rule that replaces it; a rule may decide to keep a node."""

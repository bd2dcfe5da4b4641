"""Rewrites sliding-window operators for which the importer has no converter, or one without indices."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx

from toolchain.errors import UsageError
from toolchain.models.onnx_graph import attributes_of, node_name
from toolchain.models.rewrites.graph import FROM_BEGINNING, Graph


def columns_to_image(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Col2Im` as a transposed convolution that adds every value at its place in the image."""
    columns, image, block = node.input
    shape = graph.shape(columns)
    sizes, kernel = graph.value(image), graph.value(block)
    if shape is None or sizes is None or kernel is None:
        return False
    attributes, rank = attributes_of(node), len(kernel)
    dilations = np.asarray(attributes.get("dilations", [1] * rank))
    strides = np.asarray(attributes.get("strides", [1] * rank))
    pads = np.asarray(attributes.get("pads", [0] * 2 * rank)).reshape(2, rank)
    reach = dilations * (kernel - 1) + 1
    counts = (sizes + pads.sum(0) - reach) // strides + 1
    taps = int(np.prod(kernel))
    channels = shape[1] // taps
    weight = np.zeros((taps, *reach), graph.dtype(columns))
    for number, tap in enumerate(product(*map(range, kernel))):
        weight[(number, *(np.asarray(tap) * dilations))] = 1
    whole = graph.constant(np.tile(weight, (channels, *[1] * rank))[:, None])
    grid = graph.reshape(columns, [shape[0], shape[1], *map(int, counts)])
    full = graph.emit("ConvTranspose", [grid, whole], group=channels, strides=[int(s) for s in strides])
    # What the windows do not reach at the end is zero; what was padding is cut off.
    covered = strides * (counts - 1) + reach
    missing = np.maximum(0, pads[0] + sizes - covered)
    if missing.any():
        extents = [0] * (rank + 2) + [0, 0, *map(int, missing)]
        full = graph.pad(full, extents, np.zeros((), graph.dtype(columns)))
    graph.slice(full, list(pads[0]), list(pads[0] + sizes), range(2, rank + 2), outputs=node.output)
    return True


def padded(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Pad` with negative padding, or with a value that the network computes."""
    if graph.opset < 11:
        return False
    x, pads, value, axes = [*node.input, "", ""][:4]
    shape, ends = graph.shape(x), graph.value(pads)
    picked = graph.value(axes) if axes else np.arange(len(shape or ()))
    if shape is None or ends is None or picked is None:
        return False
    attributes = attributes_of(node)
    computed = bool(value) and graph.value(value) is None
    if not computed and not (ends < 0).any():
        return False
    along = [int(axis) % len(shape) for axis in picked]
    both = np.zeros((2, len(shape)), np.int64)
    both[:, along] = np.asarray(ends).reshape(2, -1)
    if (both < 0).any():
        stops = np.asarray(shape) + np.minimum(both[1], 0)
        x = graph.slice(x, list(-np.minimum(both[0], 0)), list(stops), range(len(shape)))
    both = np.maximum(both, 0)
    flat = graph.constant(both.reshape(-1))
    if not computed or attributes.get("mode", b"constant") != b"constant":
        graph.emit("Pad", [x, flat, *([value] if value and not computed else [])], node.output, **attributes)
        return True
    zeros = graph.emit("Pad", [x, flat])
    inner = np.zeros(graph.shape(node.output[0]) or (), bool)
    inner[
        tuple(slice(begin, extent - end) for begin, end, extent in zip(*both, inner.shape, strict=True))
    ] = True
    graph.emit("Where", [graph.constant(inner), zeros, value], node.output)
    return True


def max_pool_with_indices(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `MaxPool` with indices: compare the values of a window one by one."""
    x = node.input[0]
    shape, result = graph.shape(x), graph.shape(node.output[0])
    if len(node.output) < 2 or not node.output[1] or shape is None or result is None:
        return False
    attributes, rank = attributes_of(node), len(shape) - 2
    kernel = attributes["kernel_shape"]
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    image, out = np.asarray(shape[2:]), np.asarray(result[2:])
    reach = (np.asarray(kernel) - 1) * dilations + 1
    needed = np.maximum(0, (out - 1) * strides + reach - image)
    before = np.asarray(attributes.get("pads", [0] * 2 * rank))[:rank]
    if attributes.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        before = needed // 2 if attributes["auto_pad"] == b"SAME_UPPER" else needed - needed // 2
    after = np.maximum(0, (out - 1) * strides + reach - image - before)
    kind = np.dtype(graph.dtype(x))
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    ends = [0, 0, *map(int, before), 0, 0, *map(int, after)]
    padded = graph.pad(x, ends, np.asarray(lowest, kind)) if any(ends) else x
    numbers = _numbers(shape, bool(attributes.get("storage_order", 0)))
    numbers = np.pad(numbers, list(zip(ends[: rank + 2], ends[rank + 2 :], strict=True)))
    best, where = "", ""
    for tap in product(*map(range, kernel)):
        starts = np.asarray(tap) * dilations
        stops = starts + (out - 1) * strides + 1
        cut = (slice(None), slice(None), *map(slice, starts, stops, strides))
        value = graph.slice(padded, list(starts), list(stops), range(2, rank + 2), list(strides))
        place = graph.constant(numbers[cut])
        if not best:
            best, where = value, place
            continue
        above = graph.emit("Greater", [value, best])
        best, where = (graph.emit("Where", [above, *pair]) for pair in ((value, best), (place, where)))
    graph.emit("Identity", [best], node.output[:1])
    graph.emit("Identity", [where], node.output[1:])
    return True


def _numbers(shape: tuple[int, ...], by_columns: bool) -> np.ndarray:
    """Return the number that each value of a tensor has; `by_columns`: the last two axes swapped."""
    if not by_columns:
        return np.arange(np.prod(shape)).reshape(shape)
    image = np.arange(np.prod(shape[2:])).reshape(shape[2:], order="F")
    first = np.arange(np.prod(shape[:2])).reshape(*shape[:2], *[1] * (len(shape) - 2))
    return first * int(np.prod(shape[2:])) + image


def max_unpool(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `MaxUnpool`: put the maxima back in their places, and zeros elsewhere."""
    x, indices, *given = node.input
    shape, attributes = graph.shape(x), attributes_of(node)
    if shape is None:
        return False
    rank = len(shape) - 2
    strides = np.asarray(attributes.get("strides", [1] * rank))
    pads = np.asarray(attributes.get("pads", [0] * 2 * rank)).reshape(2, rank)
    image = (np.asarray(shape[2:]) - 1) * strides + np.asarray(attributes["kernel_shape"]) - pads.sum(0)
    whole = [*shape[:2], *map(int, image)]
    kind = graph.dtype(x)
    zeros = graph.constant(np.zeros(int(np.prod(whole)), kind))
    flat, places = graph.reshape(x, [-1]), graph.reshape(indices, [-1])
    filled = graph.emit("ScatterElements", [zeros, places, flat], axis=0, doc_string=FROM_BEGINNING)
    if not (given and given[0]):
        graph.emit("Reshape", [filled, graph.constant(np.asarray(whole, np.int64))], node.output)
        return True
    requested = graph.value(given[0])
    if requested is None:
        return False
    behind = np.asarray(requested) - whole
    if (behind < 0).any():
        return False
    ends = [0] * len(whole) + [int(extent) for extent in behind]
    graph.pad(graph.reshape(filled, whole), ends, np.zeros((), kind), node.output)
    return True


def roi_align(node: onnx.NodeProto, graph: Graph) -> bool:
    """Scale regions before `RoiAlign` if it subtracts half a pixel: TVM subtracts before scaling, ONNX after.

    `RoiAlign` by maxima is refused: TVM takes the maximum of other values than ONNX does.
    """
    attributes = attributes_of(node)
    if attributes.get("mode", b"avg") == b"max":
        raise UsageError(
            f"{graph.origin}: unsupported use of RoiAlign (node {node_name(node)!r}): its mode is max",
            "export the network with the mode avg",
        )
    default = b"half_pixel" if graph.opset >= 16 else b"output_half_pixel"
    centred = attributes.get("coordinate_transformation_mode", default) == b"half_pixel"
    x, regions, images = node.input
    scale = attributes.pop("spatial_scale", 1.0)
    if scale == 1 or not centred:
        return False
    scaled = graph.emit("Mul", [regions, graph.constant(np.array(scale, graph.dtype(regions)))])
    graph.emit("RoiAlign", [x, scaled, images], node.output, **attributes)
    return True

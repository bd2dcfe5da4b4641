"""`Resize` as weighted values picked along each axis: every mode of the standard, by its own formulas.

What TVM's resize computes as the standard says stays a resize, for which there is faster code. Extents and
coordinates are computed in float32, as onnxruntime computes them: 3 / 0.6 is 5 there, and just below 5 in
float64, where 0.6 of float32 is a little more; rounding to a pixel magnifies that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.models.onnx_graph import all_nodes, attributes_of, node_name, opset_of
from toolchain.models.rewrites.graph import Graph
from toolchain.quantities import counted

# Replaces `Upsample`, and the `Resize` of operator set 10, by the `Resize` of set 11.
#
# TVM misreads the older operators: it takes the scales of set 10 for the region, and rounds `Upsample` to
# the nearest pixel instead of down. onnx's own version converter uses the new default, half pixels, which
# gives other numbers too.

HINT = "export it again, with operator set 11 or newer"


def with_new_resizes(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Return `model` (with inferred shapes) with `Upsample` and set 10's `Resize` as `Resize` of set 11.

    onnxruntime computes the old operators from coordinates `i / scale`, which it rounds down to enlarge and
    up to shrink.

    Raises
    ------
    UsageError
        Scales are not constant, do not give whole numbers of pixels, or are not spatial.
    """
    old = {"Upsample", "Resize"} if opset_of(model) == 10 else {"Upsample"}
    if not any(node.op_type in old for node in all_nodes(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in values}
    for node in all_nodes(graph):
        attributes = attributes_of(node)
        if node.op_type == "Constant" and "value" in attributes:
            constants[node.output[0]] = numpy_helper.to_array(attributes["value"])
        if node.op_type not in old:
            continue
        scales = attributes.get("scales", constants.get(node.input[1]) if len(node.input) > 1 else None)
        problem = problem_of(scales, shapes.get(node.input[0], []))
        if scales is None or problem:
            raise UsageError(
                f"{origin}: unsupported use of {node.op_type} (node {node_name(node)!r}): {problem}", HINT
            )
        name = f"{node.output[0]}/scales"
        graph.initializer.append(numpy_helper.from_array(np.asarray(scales, np.float32), name))
        node.op_type = "Resize"
        node.input[1:] = ["", name]
        del node.attribute[:]
        new = meaning_of(attributes.get("mode", b"nearest"), scales)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in new.items())
    return copy


def meaning_of(mode: bytes, scales: np.ndarray | list[float]) -> dict[str, bytes]:
    """Return the attributes of set 11's `Resize` that equal an old operator's behaviour."""
    nearest = b"ceil" if min(scales) < 1 else b"floor"
    return {"mode": mode, "coordinate_transformation_mode": b"asymmetric", "nearest_mode": nearest}


def problem_of(scales: np.ndarray | list[float] | None, shape: list[int]) -> str:
    """Return why an old operator with these scales cannot be converted; empty if it can."""
    if scales is None:
        return "its scales are computed by the network; they must be constants"
    shown = [round(float(scale), 6) for scale in scales]
    sizes = (
        np.asarray(shape) * np.asarray(scales, np.float64) if len(shape) == len(shown) else np.array([0.5])
    )
    if shown[:2] != [1, 1] or not 3 <= len(shown) <= 5:
        return (
            f"its scales {shown} change more than one to three spatial dimensions behind batch and channels"
        )
    if min(shown) < 1 < max(shown):
        return f"its scales {shown} enlarge and shrink at once"
    if not np.allclose(sizes, np.round(sizes), rtol=0, atol=1e-3):
        return f"its scales {shown} make no whole number of pixels of the shape {shape}"
    return ""


OWN = {
    "mode": b"nearest",
    "coordinate_transformation_mode": b"half_pixel",
    "nearest_mode": b"round_prefer_floor",
    "cubic_coeff_a": -0.75,
    "exclude_outside": 0,
    "extrapolation_value": 0.0,
    "antialias": 0,
    "keep_aspect_ratio_policy": b"stretch",
}
MOST_TAPS = 64
MOST_PIXELS = 1 << 15
"""Longest axis for which TVM computes nearest pixels exactly, in float32 and by integer division."""
HALF = 1e-6
"""Tolerance within which a coordinate counts as halfway between two pixels."""


def resized(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `Resize` axis by axis; of `Upsample` and of set 10 what picks the nearest pixel."""
    x = node.input[0]
    shape = graph.shape(x)
    attributes: dict[str, Any] = OWN | attributes_of(node)
    old = graph.opset < 11 or node.op_type == "Upsample"
    region, scales, sizes = ([*[""][:old], *node.input[1:], "", "", ""])[:3]
    stored = {name: graph.value(name) for name in (region, scales, sizes) if name}
    if shape is None or any(value is None for value in stored.values()):
        return False
    axes = [axis % len(shape) for axis in attributes.get("axes", range(len(shape)))]
    given = _numbers(stored.get(scales)), _numbers(stored.get(sizes))
    if old:
        given = attributes.get("scales", given[0]), None
        if attributes["mode"] != b"nearest" or given[0] is None or problem_of(given[0], list(shape)):
            return False  # the import reads linear ones, and says what is wrong with others
        attributes |= meaning_of(attributes["mode"], given[0])
    plan = _plan([shape[axis] for axis in axes], *given, attributes["keep_aspect_ratio_policy"])
    corners = _numbers(stored.get(region))
    whole = graph.dtype(x) == "int32" and attributes["mode"] == b"nearest"  # TVM copies float32, of 24 bits
    if not whole and _as_tvm_does(attributes, axes, shape, plan):
        return False
    if all(extent == shape[axis] for axis, (_, extent) in zip(axes, plan, strict=True)):
        graph.emit("Identity", [x], node.output)  # onnxruntime copies, whatever the scales say
        return True
    stored_kind = kind = graph.dtype(x)
    result = x
    if attributes["mode"] != b"nearest" and not kind.startswith("float"):
        if attributes["antialias"]:  # onnxruntime computes these in fixed point
            raise UsageError(
                f"{graph.origin}: unsupported use of Resize (node {node_name(node)!r}): antialias of {kind}",
                "convert to float32 before it and back behind it",
            )
        result, kind = graph.emit("Cast", [x], to=onnx.TensorProto.FLOAT), "float32"
    outside: list[tuple[int, Array]] = []
    for place, (axis, (scale, extent)) in enumerate(zip(axes, plan, strict=True)):
        if extent == shape[axis] and scale == 1:
            continue  # whatever the region says: onnxruntime crops no such axis
        crop = (0.0, 1.0)
        if attributes["coordinate_transformation_mode"] == b"tf_crop_and_resize" and corners is not None:
            crop = (corners[place], corners[place + len(axes)])
        where = _coordinates(attributes["coordinate_transformation_mode"], shape[axis], extent, scale, crop)
        index, weight = _taps(attributes, where, shape[axis], scale)
        if index.shape[1] > MOST_TAPS:
            raise UsageError(
                f"{graph.origin}: unsupported use of Resize (node {node_name(node)!r}): "
                f"{counted(index.shape[1], 'value')} make one",
                "shrink it in several steps",
            )
        result = _picked(graph, result, axis, len(shape), index, weight.astype(kind))
        if attributes["coordinate_transformation_mode"] == b"tf_crop_and_resize":
            outside.append((axis, (where < 0) | (where > shape[axis] - 1)))
    if any(mask.any() for _, mask in outside):
        result = _filled(
            graph, result, [*shape], axes, plan, outside, attributes["extrapolation_value"], kind
        )
    if kind == stored_kind:
        graph.emit("Identity", [result], node.output)
    else:  # onnxruntime cuts the fraction off
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(stored_kind))
        graph.emit("Cast", [result], node.output, to=to)
    return True


def _numbers(array: Array | None) -> list[float] | None:
    return [float(value) for value in array] if array is not None and array.size else None


def _plan(
    given: list[int], scales: list[float] | None, sizes: list[float] | None, policy: bytes
) -> list[tuple[float, int]]:
    """Return the scale and the new extent of each axis."""
    if scales is not None:
        return [
            (scale, int(np.floor(np.float32(extent) * np.float32(scale))))
            for extent, scale in zip(given, scales, strict=True)
        ]
    requested = [int(size) for size in sizes or given]
    ratios = [new / old for new, old in zip(requested, given, strict=True)]
    if policy == b"stretch":
        return list(zip(ratios, requested, strict=True))
    ratio = min(ratios) if policy == b"not_larger" else max(ratios)
    return [(ratio, int(np.floor(ratio * extent + 0.5))) for extent in given]


def _as_tvm_does(
    attributes: dict[str, Any], axes: list[int], shape: tuple[int, ...], plan: list[tuple[float, int]]
) -> bool:
    spatial = [(shape[axis], *size) for axis, size in zip(axes, plan, strict=True) if axis > 1]
    others = [(shape[axis], size[1]) for axis, size in zip(axes, plan, strict=True) if axis < 2]
    return bool(
        "axes" not in attributes
        and len(axes) == len(shape) == 4
        and all(old == new for old, new in others)
        and all(_same_pixels(attributes, *size) for size in spatial)
        and not attributes["antialias"]
        and attributes["keep_aspect_ratio_policy"] == b"stretch"
    )


def _same_pixels(attributes: dict[str, Any], old: int, scale: float, new: int) -> bool:
    """Whether TVM's coordinates on an axis select the same pixels as onnxruntime's.

    They differ in their last bits, which matters where they are rounded to a pixel: by 20 * 1.2, or 14 to 32.
    """
    mode, at, nearest = (
        attributes["mode"],
        attributes["coordinate_transformation_mode"],
        attributes["nearest_mode"],
    )
    if mode == b"linear":
        if at == b"align_corners":
            return new > 1  # by new - 1, whatever the scale
        return at in (b"half_pixel", b"asymmetric") and abs(old * scale - new) < 1e-6
    times = new // old
    if mode != b"nearest" or new != times * old or np.float32(scale) != times or new > MOST_PIXELS:
        return False
    if at == b"asymmetric":
        return bool(nearest == b"floor")  # TVM divides integers
    # (2 i + 1 - times) / (2 times) is whole for no even `times`, and no half for any: far from every boundary
    round_ = nearest in (b"round_prefer_floor", b"round_prefer_ceil")
    return at == b"half_pixel" and (round_ or times == 1 or times % 2 == 0)


def _coordinates(mode: bytes, old: int, new: int, scale: float, crop: tuple[float, float]) -> Array:
    """Return the coordinate in the input of each value of the output."""
    place, ratio, half = np.arange(new, dtype=np.float32), np.float32(scale), np.float32(0.5)
    if mode == b"asymmetric":
        return np.asarray(place / ratio)
    if mode == b"align_corners":
        # By the pixels that there are, as onnxruntime and PyTorch do; the tests of onnx divide by what the
        # scale says, which may be no whole number (decision 24).
        return np.asarray(place * (old - 1) / (new - 1) if new > 1 else place * 0)
    if mode == b"tf_crop_and_resize":
        begin, end = crop
        if new == 1:
            return np.asarray(place + 0.5 * (begin + end) * (old - 1))
        return np.asarray(begin * (old - 1) + place * (end - begin) * (old - 1) / (new - 1))
    if mode == b"pytorch_half_pixel":
        return np.asarray((place + half) / ratio - half if new > 1 else place)
    if mode == b"half_pixel_symmetric":
        middle = np.float32(old) / 2 * (1 - np.float32(new) / (ratio * np.float32(old)))
        return np.asarray(float(middle) + (place + 0.5).astype(float) / float(ratio) - 0.5, np.float32)
    return np.asarray((place + half) / ratio - half)


def _taps(attributes: dict[str, Any], where: Array, old: int, scale: float) -> tuple[Array, Array]:
    """Return [out, taps]: which values of the input each one of the output takes, and how much of each."""
    if attributes["mode"] == b"nearest":
        return np.clip(_nearest(attributes["nearest_mode"], where), 0, old - 1)[:, None], np.ones(
            (len(where), 1)
        )
    linear = attributes["mode"] == b"linear"
    stretch = max(1.0, 1 / scale) if attributes["antialias"] else 1.0
    reach = (1 if linear else 2) * stretch
    first = np.floor(where - reach).astype(int) + 1
    index = first[:, None] + np.arange(int(np.ceil(2 * reach)) + (1 if stretch > 1 else 0))
    distance = np.abs(where[:, None] - index) / stretch
    weight = (
        np.maximum(0, 1 - distance) if linear else _cubic(distance, float(str(attributes["cubic_coeff_a"])))
    )
    if attributes["exclude_outside"] or (attributes["antialias"] and linear):
        inside = (index >= 0) & (index < old)
        weight = np.where(inside, weight, 0) if attributes["exclude_outside"] else weight
    weight = weight / weight.sum(1, keepdims=True)
    return np.clip(index, 0, old - 1), weight


def _nearest(mode: object, where: Array) -> Array:
    # onnxruntime takes for a half what is less than 1e-6 off: 14.500001, which rounding left of 14.5, is one.
    if mode == b"round_prefer_floor":
        nearest = np.ceil(where.astype(float) - 0.5 - HALF)
    elif mode == b"round_prefer_ceil":
        nearest = np.floor(where.astype(float) + 0.5 + HALF)
    else:
        nearest = np.floor(where) if mode == b"floor" else np.ceil(where)
    return np.asarray(nearest, np.int64)


def _cubic(distance: Array, a: float) -> Array:
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.asarray(np.where(distance <= 1, near, np.where(distance < 2, far, 0.0)))


def _picked(graph: Graph, x: str, axis: int, rank: int, index: Array, weight: Array) -> str:
    """Write the sum over taps of the values picked along an axis times their weights."""
    along = [-1 if place == axis else 1 for place in range(rank)]
    total = ""
    for tap in range(index.shape[1]):
        if not weight[:, tap].any():
            continue
        term = graph.emit("Gather", [x, graph.constant(index[:, tap].astype(np.int64))], axis=axis)
        if not (weight[:, tap] == 1).all():
            term = graph.emit("Mul", [term, graph.constant(weight[:, tap].reshape(along))])
        total = graph.emit("Add", [total, term]) if total else term
    return total


def _filled(
    graph: Graph,
    x: str,
    shape: list[int],
    axes: list[int],
    plan: list[tuple[float, int]],
    outside: list[tuple[int, Array]],
    value: object,
    kind: str,
) -> str:
    """Write the extrapolation value wherever a coordinate is outside the input."""
    for axis, (_, extent) in zip(axes, plan, strict=True):
        shape[axis] = extent
    mask = np.zeros([1] * len(shape), bool)
    for axis, values in outside:
        mask = mask | values.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    fill = graph.constant(np.asarray(value, kind))
    return graph.emit("Where", [graph.constant(mask), fill, x])

"""Legalises operators whose values decide an address or a division, so that no access leaves a buffer.

`models/bounds` already refuses such values when a network runs. The code is confined anyway, since it is also
measured alone, on random values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx, topi
from tvm.ir.expr import GenericConst
from tvm.relax.transform.legalize_ops.common import _try_convert_to_scalar_const
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as write  # type: ignore[attr-defined]

from toolchain.lowering.graph.regions import each_place, kept, region_means

# Samples images at computed places (`GridSample`) on a device, one work item for each sample.
#
# TVM's definition repeats the formula of a coordinate for each pixel that it reads, all in one expression;
# with reflected coordinates TVM needs minutes to simplify it. Here coordinates are in memory of the work
# item, which TVM does not simplify through.

Taps = list[tuple[Any, Any]]
"""The pixels of a sample along an axis, each with its weight."""


def samples(data: te.Tensor, grid: te.Tensor, method: str, padding: str, corners: bool) -> te.Tensor:
    """Return the same as `topi.image.grid_sample`.

    Parameters
    ----------
    data
        Images, shape (count, channels, height, width), or with depth before height.
    grid
        Finite coordinates, shape (count, 2 or 3 coordinates with x first, shape of the samples).
    method
        nearest, bilinear or bicubic.
    padding
        zeros, border or reflection.
    corners
        Whether -1 and 1 are the centres of the outer pixels, not their edges.
    """
    kind = str(data.dtype)
    count, channels, *extents = (int(extent) for extent in data.shape)
    places = [int(extent) for extent in grid.shape[2:]]
    each = math.prod(places)
    shape = (count, channels, *places)

    def kernel(inputs: Any, outputs: Any) -> Any:
        images, at, out = (write.buffer_proxy(buffer) for buffer in (*inputs, *outputs))
        with IRBuilder() as builder:
            with each_place(math.prod(shape)) as place:
                image = place // (each * channels)
                axes: list[Taps] = []
                for axis, extent in enumerate(extents):
                    column = image * len(extents) + len(extents) - 1 - axis
                    axes.append(_taps(at[column * each + place % each], extent, method, padding, corners))
                total: Any = tirx.const(0, kind)
                for taps in itertools.product(*axes):
                    inside = tirx.all(
                        *(
                            tirx.all(pixel >= 0, pixel < extent)
                            for (pixel, _), extent in zip(taps, extents, strict=True)
                        )
                    )
                    offset: Any = place // each
                    for (pixel, _), extent in zip(taps, extents, strict=True):
                        offset = offset * extent + tirx.max(tirx.min(pixel, extent - 1), 0)
                    weight = reduce(lambda a, b: a * b, (weight for _, weight in taps))
                    value = tirx.Select(inside, images[offset], tirx.const(0, kind))
                    total = kept(total + value * weight)
                out[place] = total
            return builder.get()

    declare: Any = tirx.decl_buffer
    buffer = declare(shape, kind, "samples", layout=None)
    return te.extern(
        [shape], [data, grid], kernel, dtype=kind, out_buffers=[buffer], name="grid_sample", tag="grid_sample"
    )


def _taps(where: Any, extent: int, method: str, padding: str, corners: bool) -> Taps:
    kind = str(where.ty.dtype)

    def number(value: float) -> Any:
        return tirx.const(value, kind)

    def within(value: Any) -> Any:
        """Apply the padding mode to a coordinate or a pixel index."""
        if padding == "reflection":
            begin, side = (0.0, extent - 1) if corners else (-0.5, extent)
            far = kept(tirx.abs(value - number(begin)))
            times = kept(tirx.floor(far / number(max(side, 1))))
            rest = kept(far - times * number(side))
            odd = times - number(2) * tirx.floor(times * number(0.5))
            value = number(begin) + tirx.Select(odd > number(0.5), number(side) - rest, rest)
        if padding != "zeros":
            value = tirx.max(tirx.min(value, number(extent - 1)), number(0))
        return kept(value)

    scaled = (where + number(1)) * number((extent - 1) / 2 if corners else extent / 2)
    at = kept(scaled if corners else scaled - number(0.5))
    if method == "nearest":
        return [(kept(tirx.nearbyint(within(at)).astype("int32")), number(1))]
    if method == "bilinear":
        at = within(at)
    low = kept(tirx.floor(at))
    share = kept(at - low)
    if method == "bilinear":
        first = kept(low.astype("int32"))
        return [(first, number(1) - share), (first + 1, share)]
    pixels = [kept(within(low + number(step)).astype("int32")) for step in (-1, 0, 1, 2)]
    distances = [share + number(1), share, number(1) - share, number(2) - share]
    weights = [_cubic(each, far) for each, far in zip(distances, (True, False, False, True), strict=True)]
    return [(pixel, kept(weight)) for pixel, weight in zip(pixels, weights, strict=True)]


def _cubic(distance: Any, far: bool) -> Any:
    """Return the cubic weight of a pixel at a distance; `far`: between 1 and 2, else between 0 and 1."""
    kind = str(distance.ty.dtype)
    a, b, c, d = (
        tirx.const(value, kind) for value in ((-0.75, 3.75, -6.0, 3.0) if far else (1.25, -2.25, 0.0, 1.0))
    )
    return ((a * distance + b) * distance + c) * distance + d


Legalise = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

FARTHEST = 2.0**20
"""Largest coordinate of a sample, in halves of the image; larger ones are clipped to it."""

BEYOND = 4
"""A region is clipped to this many image widths (heights) beyond the image."""


def _clipped(value: Any, low: Any, high: Any) -> Any:
    """Clip a value to a range; NaN becomes a bound, since a comparison with it picks the other operand."""
    return tirx.max(tirx.min(value, high), low)


def _inside(indices: te.Tensor, extents: Sequence[Any]) -> te.Tensor:
    """Clip indices to their axes; with several axes, the last axis of `indices` selects among them."""
    kind = str(indices.dtype)

    def value(*place: Any) -> Any:
        ends = [tirx.const(int(extent) - 1, kind) for extent in extents]
        end = ends[0]
        for column, other in enumerate(ends[1:], 1):
            end = tirx.Select(place[-1].equal(column), other, end)
        return tirx.min(tirx.max(indices(*place), tirx.const(0, kind)), end)

    return te.compute(indices.shape, value, name="inside")


def _on_device() -> bool:
    target = tvm.target.Target.current(allow_none=True)
    return target is not None and "gpu" in target.keys


def _take(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    return bb.call_te(topi.take, *call.args, call.attrs.axis, mode="clip")


def _gather_elements(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    def gather(data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        axis = int(call.attrs.axis) % len(data.shape)
        return topi.gather(data, axis, _inside(indices, [data.shape[axis]]))

    return bb.call_te(gather, *call.args, primfunc_name_hint="gather")


def _gather_nd(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    def gather_nd(data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        first, rank = int(call.attrs.batch_dims), len(indices.shape)
        safe = _inside(indices, data.shape[first : first + int(indices.shape[-1])])
        return topi.gather_nd(data, topi.transpose(safe, [rank - 1, *range(rank - 1)]), first)

    return bb.call_te(gather_nd, *call.args, primfunc_name_hint="gather_nd")


def _scatter_elements(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    scatter = topi.gpu.scatter_elements if _on_device() else topi.scatter_elements

    def scatter_elements(data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
        axis = int(call.attrs.axis) % len(data.shape)
        return scatter(data, _inside(indices, [data.shape[axis]]), updates, axis, call.attrs.reduction)

    return bb.call_te(scatter_elements, *call.args, primfunc_name_hint="scatter_elements")


def _scatter_nd(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    scatter = topi.gpu.scatter_nd if _on_device() else topi.scatter_nd

    def scatter_nd(data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
        rank = len(indices.shape)
        safe = _inside(indices, data.shape[: int(indices.shape[-1])])
        return scatter(
            data, topi.transpose(safe, [rank - 1, *range(rank - 1)]), updates, call.attrs.reduction
        )

    return bb.call_te(scatter_nd, *call.args, primfunc_name_hint="scatter_nd")


def _grid_sample(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Clip coordinates before they become integers, since large floats have no integer value."""
    of = call.attrs

    def grid_sample(data: te.Tensor, grid: te.Tensor) -> te.Tensor:
        largest = max(int(extent) for extent in data.shape[2:])
        end = tirx.const(min(FARTHEST, 2.0**29 / largest), grid.dtype)
        safe = te.compute(grid.shape, lambda *place: _clipped(grid(*place), -end, end), name="inside")
        if _on_device():
            return samples(data, safe, of.method, of.padding_mode, bool(of.align_corners))
        return topi.image.grid_sample(data, safe, of.method, of.layout, of.padding_mode, of.align_corners)

    return bb.call_te(grid_sample, *call.args, primfunc_name_hint="grid_sample")


def _cut_regions(data: te.Tensor, rois: te.Tensor, scale: float) -> te.Tensor:
    """Clip regions (image, left, top, right, bottom) to existing images and to places near them."""
    images, _, height, width = (int(extent) for extent in data.shape)

    def value(row: Any, column: Any) -> Any:
        sides = [width, height, width, height]
        low, high = tirx.const(0, rois.dtype), tirx.const(images - 1, rois.dtype)
        for place, side in enumerate(sides, 1):
            here = column.equal(place)
            low = tirx.Select(here, tirx.const(-BEYOND * side / scale, rois.dtype), low)
            high = tirx.Select(here, tirx.const((BEYOND + 1) * side / scale, rois.dtype), high)
        return _clipped(rois[row, column], low, high)

    return te.compute(rois.shape, value, name="inside")


def _roi_align(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    of = call.attrs

    def roi_align(data: te.Tensor, rois: te.Tensor) -> te.Tensor:
        safe = _cut_regions(data, rois, of.spatial_scale)
        cells = (int(of.pooled_size[0]), int(of.pooled_size[1]))
        return region_means(data, safe, cells, of.spatial_scale, int(of.sample_ratio), bool(of.aligned))

    return bb.call_te(roi_align, *call.args, primfunc_name_hint="roi_align")


def _roi_pool(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    of = call.attrs

    def roi_pool(data: te.Tensor, rois: te.Tensor) -> te.Tensor:
        safe = _cut_regions(data, rois, of.spatial_scale)
        return topi.vision.roi_pool(data, safe, of.pooled_size, of.spatial_scale, of.layout)

    return bb.call_te(roi_pool, *call.args, primfunc_name_hint="roi_pool")


def _dividing(operator: Callable[..., Any], quotient: bool) -> Legalise:
    """Return a legalisation that divides integers safely: never by 0, and by -1 without a division.

    A divisor of 0 counts as 1, since `models/bounds` refuses it. Dividing the smallest integer by -1 traps on
    some processors; here it wraps around to itself.
    """

    def legalised(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        x, divisor = call.args
        dtype = str(call.ty.dtype)
        if "int" not in dtype or _harmless(divisor, dtype):
            arg1 = _try_convert_to_scalar_const(divisor)
            arg0 = x if isinstance(arg1, int | float | tirx.IntImm | tirx.FloatImm) else _scalar(x)
            return bb.call_te(operator, arg0, arg1)
        signed = not dtype.startswith("u")

        def divided(x: te.Tensor, divisor: te.Tensor) -> te.Tensor:
            one, zero = tirx.const(1, dtype), tirx.const(0, dtype)

            def safe(*place: Any) -> Any:
                value = divisor(*place)
                no = tirx.EQ(value, zero)
                return tirx.Select(
                    tirx.any(no, tirx.EQ(value, tirx.const(-1, dtype))) if signed else no, one, value
                )

            result = operator(x, te.compute(divisor.shape, safe, name="inside"))
            if not (signed and quotient):
                return result  # the remainder of a division by -1 equals that of a division by 1

            def sign(*place: Any) -> Any:
                minus = tirx.const(-1, dtype)
                return tirx.Select(tirx.EQ(divisor(*place), minus), minus, one)

            return topi.multiply(result, te.compute(divisor.shape, sign, name="sign"))

        return bb.call_te(divided, x, divisor, primfunc_name_hint="divide" if quotient else "modulo")

    return legalised


def _scalar(value: relax.Expr) -> Any:
    return _try_convert_to_scalar_const(value)


def _harmless(divisor: relax.Expr, dtype: str) -> bool:
    """Whether a divisor is a constant without 0 and -1."""
    if not isinstance(divisor, GenericConst):
        return False
    value = divisor.value.numpy()
    return not (value == 0).any() and (dtype.startswith("u") or not (value == np.array(-1, dtype)).any())


CONFINED: dict[str, Legalise] = {
    "relax.divide": _dividing(topi.divide, True),
    "relax.floor_divide": _dividing(topi.floor_divide, True),
    "relax.floor_mod": _dividing(topi.floor_mod, False),
    "relax.gather_elements": _gather_elements,
    "relax.gather_nd": _gather_nd,
    "relax.image.grid_sample": _grid_sample,
    "relax.mod": _dividing(topi.mod, False),
    "relax.scatter_elements": _scatter_elements,
    "relax.scatter_nd": _scatter_nd,
    "relax.take": _take,
    "relax.vision.roi_align": _roi_align,
    "relax.vision.roi_pool": _roi_pool,
}
"""Legalisations of all operators of Relax that `models` writes and whose values decide an address or a
division."""

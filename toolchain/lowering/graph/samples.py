"""Samples images at computed places (`GridSample`) on a device, one work item for each sample.

TVM's definition repeats the formula of a coordinate for each pixel that it reads, all in one expression; with
reflected coordinates TVM needs minutes to simplify it. Here coordinates are in memory of the work item, which
TVM does not simplify through.
"""

from __future__ import annotations

import itertools
import math
from functools import reduce
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as write  # type: ignore[attr-defined]

from toolchain.lowering.graph.regions import each_place, kept

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

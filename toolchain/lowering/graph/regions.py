"""Means of regions of images (`RoiAlign`): a loop, or a work item, for each cell of a region.

How many points of a cell are read may depend on the region's size. TVM's definition has a reduction axis of
that extent. Of a region without a size nothing is read then, and its mean is never written: the output holds
what memory held before. Nor can schedules for devices take such an axis apart: kernels wrote elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as write  # type: ignore[attr-defined]


def region_means(
    data: te.Tensor, rois: te.Tensor, cells: tuple[int, int], scale: float, ratio: int, aligned: bool
) -> te.Tensor:
    """Return the mean of each cell of each region, as ONNX defines `RoiAlign`.

    Parameters
    ----------
    data
        Images: (count, channels, height, width).
    rois
        Regions, cut near the images: (count, 5), each its image, left, top, right and bottom.
    cells
        Of each region: rows and columns.
    scale
        Of the regions' coordinates.
    ratio
        Points along each side of a cell; 0: one for each pixel.
    aligned
        Whether regions may be smaller than a pixel.
    """
    shape = (int(rois.shape[0]), int(data.shape[1]), *cells)
    kind = str(data.dtype)

    def kernel(inputs: Any, outputs: Any) -> Any:
        images, regions, out = (write.buffer_proxy(each) for each in (*inputs, *outputs))
        with IRBuilder() as builder:
            with each_place(math.prod(shape)) as place:
                region = place // math.prod(shape[1:]) * 5
                of_image = regions[region].astype("int32") * shape[1] + place // math.prod(cells) % shape[1]
                sides = [kept(regions[region + each] * tirx.const(scale, kind)) for each in range(1, 5)]
                row, column = place // cells[1] % cells[0], place % cells[1]
                ys = _points(sides[1], sides[3], row, cells[0], ratio, aligned)
                xs = _points(sides[0], sides[2], column, cells[1], ratio, aligned)
                pixel = _pixels(images, kept(of_image), [int(extent) for extent in data.shape[2:]])
                total = write.buffer_proxy(write.decl_buffer([1], kind, scope="local"))
                total[0] = tirx.const(0, kind)
                with write.serial(0, ys[0]) as down, write.serial(0, xs[0]) as along:
                    total[0] += pixel(ys[1](down), xs[1](along))
                out[place] = total[0] / tirx.max(ys[0] * xs[0], 1).astype(kind)
            return builder.get()

    declare: Any = tirx.decl_buffer
    buffer = declare(shape, kind, "means", layout=None)
    return te.extern(
        [shape], [data, rois], kernel, dtype=kind, out_buffers=[buffer], name="roi_align", tag="roi_align"
    )


@contextmanager
def each_place(count: int) -> Iterator[Any]:
    """Write a loop over places of an output: work items of the current target's device, or threads."""
    target = tvm.target.Target.current(allow_none=True)
    if target is None or "gpu" not in target.keys:
        with write.parallel(0, count) as place:
            yield place
        return
    items = int(target.attrs["max_num_threads"])
    group, item = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    groups = write.attr(group, "thread_extent", -(-count // items))
    with write.frame_scope([groups, write.attr(item, "thread_extent", items)]):
        place = group * items + item
        with write.If(place < count), write.Then():
            yield place


def kept(value: Any) -> Any:
    """Return what a variable of the loop holds: a value, which is not computed again where it is used.

    It lies in memory, which TVM does not look through: where it does, it simplifies for minutes.
    """
    memory = write.buffer_proxy(write.decl_buffer([1], str(value.ty.dtype), scope="local"))
    memory[0] = value
    return memory[0]


def _points(
    begin: Any, end: Any, cell: Any, cells: int, ratio: int, aligned: bool
) -> tuple[Any, Callable[[Any], Any]]:
    """Return how many points a cell has along an axis, and what says where each of them is."""
    kind = str(begin.ty.dtype)
    size = end - begin if aligned else tirx.max(end - begin, tirx.const(1, kind))
    extent = kept(size / tirx.const(cells, kind))
    count = tirx.const(ratio, "int32") if ratio > 0 else kept(tirx.ceil(extent).astype("int32"))
    first = kept(begin + cell.astype(kind) * extent)
    half = tirx.const(0.5, kind)
    return count, lambda point: first + (point.astype(kind) + half) * extent / count.astype(kind)


def _pixels(images: Any, image: Any, extents: list[int]) -> Callable[[Any, Any], Any]:
    """Return what interpolates one plane of the images; 0 more than a pixel beyond it."""

    def pixel(*point: Any) -> Any:
        far: list[Any] = []
        lows, highs, shares = [], [], []
        for where, extent in zip(point, extents, strict=True):
            kind = str(where.ty.dtype)
            at = kept(where)
            far += [at < tirx.const(-1, kind), at > tirx.const(extent, kind)]
            within = kept(tirx.max(tirx.min(at, tirx.const(extent - 1, kind)), tirx.const(0, kind)))
            low = kept(tirx.max(tirx.min(within.astype("int32"), extent - 1), 0))  # NaN, too
            lows.append(low)
            highs.append(tirx.min(low + 1, extent - 1))
            shares.append(kept(within - low.astype(kind)))
        values = []
        for y in (lows[0], highs[0]):
            left, right = (images[(image * extents[0] + y) * extents[1] + x] for x in (lows[1], highs[1]))
            values.append(left + (right - left) * shares[1])
        inside = values[0] + (values[1] - values[0]) * shares[0]
        return tirx.Select(tirx.any(*far), tirx.const(0, str(inside.ty.dtype)), inside)

    return pixel

"""Computes means of regions of images (`RoiAlign`), one loop iteration or work item for each cell.

The number of points read in a cell may depend on the region's size. TVM's definition has a reduction axis of
that extent: for an empty region the axis is empty and the mean is never written, so the output is
uninitialised. Schedules for devices cannot split such an axis either; their kernels wrote out of bounds.
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
        Images, shape (count, channels, height, width).
    rois
        Regions, clipped near the images, shape (count, 5): image, left, top, right, bottom.
    cells
        Number of rows and columns of cells in each region.
    scale
        Factor from the regions' coordinates to pixels.
    ratio
        Number of points along each side of a cell; 0: one for each pixel.
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
    """Write a loop over the elements of an output, on work items of the target's device or on threads."""
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
    """Store a value in a local variable of the loop and return the variable, so that it is computed once.

    The variable is in memory, which TVM does not simplify through; otherwise it may simplify for minutes.
    """
    memory = write.buffer_proxy(write.decl_buffer([1], str(value.ty.dtype), scope="local"))
    memory[0] = value
    return memory[0]


def _points(
    begin: Any, end: Any, cell: Any, cells: int, ratio: int, aligned: bool
) -> tuple[Any, Callable[[Any], Any]]:
    """Return the number of points of a cell along an axis, and a function for the coordinate of each."""
    kind = str(begin.ty.dtype)
    size = end - begin if aligned else tirx.max(end - begin, tirx.const(1, kind))
    extent = kept(size / tirx.const(cells, kind))
    count = tirx.const(ratio, "int32") if ratio > 0 else kept(tirx.ceil(extent).astype("int32"))
    first = kept(begin + cell.astype(kind) * extent)
    half = tirx.const(0.5, kind)
    return count, lambda point: first + (point.astype(kind) + half) * extent / count.astype(kind)


def _pixels(images: Any, image: Any, extents: list[int]) -> Callable[[Any, Any], Any]:
    """Return a function that interpolates one plane of the images; 0 more than a pixel outside of it."""

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

"""Resizing of images."""

from __future__ import annotations

import numpy as np

from toolchain.arrays import Array
from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.layout import ChannelOrder

MOST_ROWS = 1 << 16
"""That are taken by a constant of their own."""


def _linear(call: OperatorCall) -> None:
    centres, corners = _where(call)
    _emit(call, "linear", "align_corners" if corners else "half_pixel" if centres else "asymmetric")


def _nearest(call: OperatorCall) -> None:
    graph, x = call.graph, call.input(0)
    centres, corners = _where(call)
    height, width = call.numbers(1, "the size of its output")
    if min(height, width) < 1:
        raise ValueError(f"an output of {height} x {width}")
    if max(height, width) > MOST_ROWS:
        raise call.refusal(f"an output of {height} x {width}")
    ends = [(x.shape[1], height), (x.shape[2], width)]
    rows, columns = (_picked(*each, corners=corners, centres=centres) for each in ends)
    if _repeats(rows, *ends[0]) and _repeats(columns, *ends[1]):
        _emit(call, "nearest", "asymmetric")  # for which there is faster code
        return
    tall = graph.emit("Gather", [graph.real(x.index, ChannelOrder.FIRST), graph.constant(rows)], axis=2)
    made = graph.emit("Gather", [tall, graph.constant(columns)], call.output.name, axis=3)
    graph.result(call.output.index, made, ChannelOrder.FIRST)


def _where(call: OperatorCall) -> tuple[bool, bool]:
    """Return half_pixel_centers and align_corners."""
    centres = call.option("half_pixel_centers", False)
    corners = call.option("align_corners", False)
    if centres and corners:
        raise ValueError("align_corners and half_pixel_centers")
    return bool(centres), bool(corners)


def _emit(call: OperatorCall, mode: str, at: str) -> None:
    graph, x = call.graph, call.input(0)
    height, width = call.numbers(1, "the size of its output")
    made = graph.emit(
        "Resize",
        [
            graph.real(x.index, ChannelOrder.FIRST),
            "",
            "",
            graph.integers([x.shape[0], x.shape[3], height, width]),
        ],
        call.output.name,
        mode=mode,
        coordinate_transformation_mode=at,
        nearest_mode="floor",
    )
    graph.result(call.output.index, made, ChannelOrder.FIRST)


def _picked(old: int, new: int, *, corners: bool, centres: bool) -> Array:
    """Return the rows that TensorFlow Lite takes for the nearest ones, in its arithmetic: float32.

    Where a row begins exactly at another one's end, rounding says which of both it takes: the middle one of
    41 rows made of 2 is row 0, that of 43 row 1. No mode of ONNX says so.
    """
    one = np.float32(1)
    scale = (old - one) / (new - one) if corners and new > 1 else old * one / new
    where = (np.arange(new, dtype=np.float32) + np.float32(0.5 * centres)) * scale
    rounded = np.floor(where.astype(float) + 0.5) if corners else np.floor(where)
    return np.asarray(rounded.clip(0, old - 1), np.int64)


def _repeats(picked: Array, old: int, new: int) -> bool:
    """Say whether each row is taken as often as each other one, one after another."""
    return new % old == 0 and bool((picked == np.arange(new) // (new // old)).all())


RULES: dict[str, Rule] = {
    "RESIZE_BILINEAR": _linear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
}

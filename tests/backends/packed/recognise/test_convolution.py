"""Convolutions are recognised by what is computed, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import te, topi

from toolchain.backends.packed.recognise.convolution import Convolution, convolution
from toolchain.backends.packed.recognise.read import read


def found(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int = 1,
    batch: int = 1,
    channels: tuple[int, int] = (8, 12),
) -> Convolution | None:
    """Return what topi's convolution is taken for."""
    ci, co = channels
    x = te.placeholder((batch, ci, *size), name="x")
    w = te.placeholder((co, ci // groups, *kernel), name="w")
    y = topi.nn.conv(
        x,
        w,
        list(stride),
        list(pads),
        list(dilation),
        groups,
        "NC" + "DHW"[-len(size) :],
        "OI" + "DHW"[-len(size) :],
    )
    return convolution(read(te.create_prim_func([x, w, topi.nn.relu(y)])))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads", "dilation"),
    [
        ((9,), (3,), (1,), (1, 1), (1,)),
        ((9,), (5,), (3,), (2, 0), (1,)),
        ((9, 10), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
        ((9, 10), (3, 3), (1, 2), (1, 1, 1, 1), (1, 1)),
        ((9, 10), (1, 7), (1, 1), (0, 3, 0, 3), (1, 1)),
        ((9, 10), (3, 3), (2, 2), (2, 1, 2, 1), (2, 1)),
        ((9, 10), (3, 2), (1, 1), (0, 1, 2, 0), (1, 3)),
        ((5, 6, 7), (3, 1, 3), (1, 2, 1), (1, 0, 1, 1, 0, 1), (1, 1, 2)),
    ],
)
@pytest.mark.parametrize(("groups", "batch"), [(1, 1), (4, 2)])
def test_convolutions(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    batch: int,
) -> None:
    conv = found(size, kernel, stride, pads, dilation, groups, batch)
    assert conv is not None
    assert (conv.batch, conv.ci, conv.co, conv.groups) == (batch, 8, 12, groups)
    assert (conv.size, conv.kernel) == (size, kernel)
    rank = len(size)
    assert conv.pads[:rank] == pads[:rank]
    for axis in range(rank):
        window = dilation[axis] * (kernel[axis] - 1) + 1
        out = (size[axis] + pads[axis] + pads[rank + axis] - window) // stride[axis] + 1
        assert conv.out[axis] == out
        if out > 1:
            assert conv.stride[axis] == stride[axis]
        if kernel[axis] > 1:
            assert conv.dilation[axis] == dilation[axis]
        assert conv.pads[rank + axis] <= pads[rank + axis]  # what no window reaches is not needed
        assert (out - 1) * stride[axis] + window <= pads[axis] + size[axis] + conv.pads[rank + axis]
    assert (conv.x.name, conv.weight.name) == ("x", "w")
    assert not conv.depthwise


def test_a_group_for_every_channel_is_depthwise() -> None:
    conv = found((9, 9), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), groups=8, channels=(8, 8))
    assert conv is not None
    assert conv.depthwise
    twice = found((9, 9), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), groups=8, channels=(8, 16))
    assert twice is not None
    assert not twice.depthwise


def taken(
    value: Callable[..., tvm.ir.Expr], pad: Callable[[te.Tensor], te.Tensor] = lambda x: x
) -> Convolution | None:
    """Return what a sum over channels and a 3 x 3 window is taken for."""
    x, w = te.placeholder((1, 4, 8, 8), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    data = pad(x)
    c, h, v = (te.reduce_axis((0, extent)) for extent in (4, 3, 3))

    def summed(*place: Any) -> tvm.ir.Expr:
        return te.sum(value(data, w, c, h, v, *place), axis=[c, h, v])

    y = te.compute((1, 4, 6, 6), summed)
    return convolution(read(te.create_prim_func([x, w, y])))


@pytest.mark.parametrize(
    ("size", "pads", "dilation", "kernel", "left"),
    [
        ((16, 16), (24, 24, 24, 24), (24, 24), (1, 1), (0, 0, 0, 0)),
        ((16, 16), (12, 12, 12, 12), (12, 12), (3, 3), (12, 12, 12, 12)),
        ((16, 30), (24, 24, 24, 24), (24, 24), (1, 3), (0, 24, 0, 24)),
        ((1, 9), (1, 1, 1, 1), (1, 1), (1, 3), (0, 1, 0, 1)),
        ((16, 16), (30, 24, 18, 24), (24, 24), (1, 1), (6, 0, 0, 0)),
        ((16, 16), (18, 24, 30, 24), (24, 24), (2, 1), (18, 0, 6, 0)),  # no window begins inside the image
        ((4, 4), (9, 0, 0, 9), (4, 4), (1, 1), (1, 0, 0, 1)),
    ],
)
def test_taps_that_no_output_meets_are_left_out(
    size: tuple[int, ...],
    pads: tuple[int, ...],
    dilation: tuple[int, ...],
    kernel: tuple[int, ...],
    left: tuple[int, ...],
) -> None:
    conv = found(size, (3, 3), (1, 1), pads, dilation)
    assert conv is not None
    assert (conv.kernel, conv.pads) == (kernel, left)


def test_near_misses_are_no_convolutions() -> None:
    def usual(x: Any, w: Any, c: Any, h: Any, v: Any, n: Any, o: Any, i: Any, j: Any) -> tvm.ir.Expr:
        return x[n, c, i + h, j + v] * w[o, c, h, v]

    assert taken(usual) is not None
    assert taken(usual, lambda x: topi.nn.pad(x, [0, 0, 1, 1], pad_value=0.0)) is not None
    # Other values around the image, or another image in it.
    assert taken(usual, lambda x: topi.nn.pad(x, [0, 0, 1, 1], pad_value=1.0)) is None
    assert taken(usual, topi.nn.relu) is None
    assert taken(usual, lambda x: topi.flip(x, 3)) is None
    # The kernel turned round, its axes swapped; channels of another group; the sum of one operand.
    assert taken(lambda x, w, c, h, v, n, o, i, j: x[n, c, i + h, j + v] * w[o, c, 2 - h, v]) is None
    assert taken(lambda x, w, c, h, v, n, o, i, j: x[n, c, i + v, j + h] * w[o, c, h, v]) is None
    assert taken(lambda x, w, c, h, v, n, o, i, j: x[n, 3 - c, i + h, j + v] * w[o, c, h, v]) is None
    assert taken(lambda x, w, c, h, v, n, o, i, j: x[n, c, i + h, j + v] * w[c, o, h, v]) is None
    assert taken(lambda x, _w, c, h, v, n, _o, i, j: x[n, c, i + h, j + v]) is None
    assert taken(lambda x, w, c, h, v, n, o, i, j: x[n, c, i * h, j + v] * w[o, c, h, v]) is None
    assert taken(lambda x, w, c, h, v, n, o, i, j: x[n, c, i + h, j + v] + w[o, c, h, v]) is None


def test_a_weight_that_is_computed_is_none() -> None:
    x, w = te.placeholder((1, 4, 8, 8), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    y = topi.nn.conv(x, topi.nn.relu(w), [1, 1], [1, 1, 1, 1], [1, 1], 1, "NCHW", "OIHW")
    assert convolution(read(te.create_prim_func([x, w, y]))) is None

"""A convolution's parameters as a function has them, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tvm import te, tirx, topi
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout, Layouts
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machines import AVX2
from toolchain.backends.packed.recognise.convolution import Convolution, convolution
from toolchain.backends.packed.recognise.expressions import calls
from toolchain.backends.packed.recognise.read import Read, read, shape_of

LANES = AVX2.lanes
WEIGHT = (2, 16, 3, 3, LANES)


def layer(
    channels: int = 13, after: Callable[[te.Tensor], te.Tensor] | None = None
) -> tuple[Read, Convolution]:
    """Return a 3x3 convolution of 16 channels with a bias, and what follows."""
    x = te.placeholder((1, 16, 6, 6), name="x")
    w = te.placeholder((channels, 16, 3, 3), name="w")
    bias = te.placeholder((1, channels, 1, 1), name="bias")
    y = topi.add(topi.nn.conv2d_nchw(x, w, 1, 1, 1), bias)
    found = read(te.create_prim_func([x, w, bias, y if after is None else after(y)]))
    conv = convolution(found)
    assert conv is not None
    return found, conv


def emitted(
    check: Callable[[Emitter], None],
    *,
    halo: Sequence[int] = (1, 1, 1, 1),
    layouts: Layouts | None = None,
    needed: Sequence[int] | None = None,
    **options: object,
) -> tirx.PrimFunc:
    found, conv = layer(**options)
    own = (Layout(LANES, tuple(halo)), None, None, Layout(LANES, (0, 0, 0, 0)))

    def body(nest: Nest) -> None:
        check(Emitter(nest, found, conv, layouts or own, WEIGHT, needed))
        ir.evaluate(0)

    return build(AVX2, body)


def test_parameters_have_the_shapes_of_their_layouts_and_the_packed_weight_its_own() -> None:
    def check(emitter: Emitter) -> None:
        shapes = [shape_of(buffer) for buffer in emitter.arguments]
        assert shapes == [(1, 2, 8, 8, LANES), WEIGHT, (1, 13, 1, 1), (1, 2, 6, 6, LANES)]
        assert shape_of(emitter.weight) == WEIGHT and emitter.dtype == "float32"

    emitted(check)


@pytest.mark.parametrize(("halo", "origin"), [((1, 1, 1, 1), (0, 0)), ((3, 2, 1, 1), (2, 1))])
def test_windows_begin_where_the_padding_does(halo: Sequence[int], origin: tuple[int, int]) -> None:
    def check(emitter: Emitter) -> None:
        assert emitter.origin == origin

    emitted(check, halo=halo)


@pytest.mark.parametrize("halo", [(0, 1, 1, 1), (1, 1, 1, 0)])
def test_a_halo_smaller_than_the_padding_is_refused(halo: Sequence[int]) -> None:
    """It would read beside the buffer."""
    with pytest.raises(ValueError, match=r"x: the halo .* is too small"):
        emitted(lambda _: None, halo=halo)


def test_an_algorithm_that_reads_further_asks_for_more() -> None:
    emitted(lambda _: None, halo=(1, 1, 2, 2), needed=(1, 1, 2, 2))
    with pytest.raises(ValueError, match="is too small"):
        emitted(lambda _: None, halo=(1, 1, 1, 1), needed=(1, 1, 2, 2))


def test_what_is_not_packed_has_no_layout() -> None:
    with pytest.raises(ValueError, match="x is not packed"):
        emitted(lambda _: None, layouts=(None, None, None, Layout(LANES, (0, 0, 0, 0))))


@pytest.mark.parametrize(
    ("after", "long"), [(None, False), (topi.nn.relu, False), (topi.tanh, True), (topi.sigmoid, True)]
)
def test_what_becomes_a_polynomial_is_long(
    after: Callable[[te.Tensor], te.Tensor] | None, long: bool
) -> None:
    def check(emitter: Emitter) -> None:
        assert emitter.long == long

    emitted(check, after=after)


@pytest.mark.parametrize(("channels", "guarded"), [(16, False), (13, True)])
def test_channels_that_only_the_padding_has_are_not_read(channels: int, guarded: bool) -> None:
    """A bias of 13 numbers ends inside the second block."""

    def check(emitter: Emitter) -> None:
        with emitter.nest.grid([2]) as (block,), emitter.nest.vector(LANES) as lane:
            zero = tirx.IntImm("int32", 0)
            emitter.store(tirx.const(1.0, "float32"), [zero, block * LANES + lane, zero, zero])

    func = emitted(check, channels=channels)
    assert (calls(func.body, "if_then_else") > 0) == guarded

"""Knobs as text, and which of them fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vta.generated import PYNQ, alone, layer, shapes
from toolchain.errors import UsageError
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.estimate import default_knobs, legal_knobs
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.layers.layer import ConvShape, read_shape
from toolchain.vta.layers.region import Knobs, read_knobs

FIRST = read_shape("1,56,56,64,64,3,3,1,1,1,1")
GOOD = Knobs(8, 56, 1, 2, 1, 1)


@given(st.builds(Knobs, *[st.integers(1, 99)] * 7))
def test_knobs_survive_text(knobs: Knobs) -> None:
    assert read_knobs(str(knobs)) == knobs
    assert next(iter(knobs.decisions())) == "tile_b"


def test_threads_and_batch_may_be_left_out() -> None:
    assert read_knobs(" tile_co=2, tile_ci=1,tile_w=56 ,tile_h=8") == GOOD


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' is not a knob; the knobs are: tile_h"),
        ("tile_h", "'tile_h' is not a knob"),
        ("tile_x=1", "'tile_x=1' is not a knob"),
        ("tile_h=1,tile_h=2", "tile_h is given twice"),
        ("tile_h=0", "tile_h is '0', not a positive"),
        ("tile_h=-1", "tile_h is '-1', not a positive"),
        ("tile_h=1.5", "tile_h is '1.5', not a positive"),
        ("tile_h=" + "9" * 400, "not a positive"),
        ("tile_h=1,tile_co=2", "it lacks tile_w, tile_ci"),
    ],
)
def test_refuses_invalid_knobs(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_knobs(text)
    assert reason in refused.value.message and "such as tile_h=" in refused.value.hint
    assert len(refused.value.message) < 700


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tile_b": 2}, "tile_b=2 does not divide the 1 image"),
        ({"tile_h": 9}, "tile_h=9 does not divide the 56 rows"),
        ({"tile_w": 112}, "tile_w=112 does not divide the 56 columns"),
        ({"tile_ci": 3}, "tile_ci=3 does not divide the 4 blocks of input"),
        ({"tile_co": 3}, "tile_co=3 does not divide the 4 blocks of output"),
        ({"oc_nthread": 3}, "oc_nthread=3 and h_nthread=1"),
        ({"oc_nthread": 2, "h_nthread": 2}, "one of them may be 2"),
        ({"tile_co": 4, "oc_nthread": 2}, "oc_nthread=2 does not divide the 1 piece that tile_co makes"),
        ({"tile_h": 56, "tile_w": 14, "h_nthread": 2}, "h_nthread=2 does not divide the 1 piece"),
        ({"tile_ci": 4}, "2320 elements of INP, which has 2048: make tile_h, tile_w or tile_ci smaller"),
        ({"tile_h": 14, "tile_co": 4}, "3144 elements of ACC, which has 2048"),
    ],
)
def test_tiling_names_what_does_not_fit(change: dict[str, int], reason: str) -> None:
    assert not Tiling(FIRST, GOOD, PYNQ).problem()
    knobs = replace(GOOD, **change)
    with pytest.raises(UsageError) as refused:
        assemble(alone(layer(FIRST), knobs), PYNQ)
    assert reason in refused.value.message and str(knobs) in refused.value.message
    assert knobs not in legal_knobs(FIRST, PYNQ)


def test_tiling_respects_buffer_depths() -> None:
    wide = read_shape("1,7,7,512,512,3,3,1,1,1,1")
    assert "elements of WGT" in Tiling(wide, Knobs(7, 7, 4, 32), PYNQ).problem()
    large = read_shape("1,64,8,16,512,7,7,3,3,1,1")
    assert "elements of UOP" in Tiling(large, Knobs(16, 1, 1, 16), PYNQ).problem()
    residual = Tiling(read_shape("1,4,4,128,512,2,2,0,0,1,1"), Knobs(1, 3, 8, 32), PYNQ, residual=True)
    assert "1056 elements of WGT" in residual.problem()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "tile_w", "reason"),
    [
        ("1,3,40000,16,16,1,1,0,0,2,1", 1000, "rows are 80000 elements apart, where 65535 is the most"),
        ("1,2,65535,16,16,1,16,0,15,1,1", 570, "rows are 65550 elements apart"),
    ],
)
def test_tiling_respects_the_largest_stride(shape: str, tile_w: int, reason: str) -> None:
    cut = Tiling(read_shape(shape), Knobs(2, tile_w, 1, 1), PYNQ)
    assert reason in cut.problem()
    knobs = replace(cut.knobs, tile_h=1)  # a single row is no distance from another one
    assemble(alone(layer(cut.shape), knobs), PYNQ).code()


def test_tiling_respects_the_hazard_distance() -> None:
    point = ConvShape(1, 1, 1, 64, 16, 1, 1, 0, 0, 1, 1)
    assert "lie between two uses" in Tiling(point, Knobs(1, 1, 4, 1), PYNQ).problem()
    assert not Tiling(point, Knobs(1, 1, 1, 1), PYNQ).problem()


def test_layer_that_fits_with_no_knobs_is_refused() -> None:
    with pytest.raises(UsageError, match="does not fit: 1089 elements of WGT") as refused:
        default_knobs(ConvShape(1, 40, 40, 16, 16, 33, 33, 0, 0, 1, 1), PYNQ)
    assert "CPU" in refused.value.hint


@given(shape=shapes())
def test_default_knobs_are_the_fastest_legal_ones(shape: ConvShape) -> None:
    legal = legal_knobs(shape, PYNQ)
    assert legal[0] == default_knobs(shape, PYNQ)
    assert all(not Tiling(shape, knobs, PYNQ).problem() for knobs in legal)

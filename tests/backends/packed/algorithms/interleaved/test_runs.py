"""Runs of phases: all phases in their order, each with its taps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from toolchain.backends.packed.algorithms.interleaved.choice import phases_of
from toolchain.backends.packed.algorithms.interleaved.loops import first_tap, runs_of
from toolchain.backends.packed.recognise.read import Expr
from toolchain.backends.packed.recognise.transposed import OutputPhase, Transposed

AXIS = st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(1, 3), st.integers(0, 4))


def turned(axes: list[tuple[int, int, int, int]], size: int) -> Transposed:
    stride, kernel, dilation, crop = zip(*axes, strict=True)
    out = tuple(
        max(1, (size - 1) * step + (taps - 1) * wide + 1 - 2 * before) for step, taps, wide, before in axes
    )
    buffer = tirx.decl_buffer((1,), "float32")
    sizes = (size,) * len(axes)
    return Transposed(1, 8, 8, 1, sizes, kernel, out, stride, dilation, buffer, buffer, buffer, crop)


@given(st.lists(AXIS, min_size=1, max_size=3), st.integers(1, 5))
def test_each_phase_is_in_one_run_with_its_taps(axes: list[tuple[int, int, int, int]], size: int) -> None:
    conv = turned(axes, size)
    tap = 0
    expected: dict[tuple[int, ...], tuple[int, list[OutputPhase]]] = {}
    for phases in phases_of(conv):
        expected[tuple(each.remainder for each in phases)] = tap, [alike(each) for each in phases]
        count = 1
        for each in phases:
            count *= each.taps
        tap += count
    found: dict[tuple[int, ...], tuple[Expr | int, list[OutputPhase]]] = {}
    for runs in runs_of(conv):
        places: list[tuple[int, ...]] = [()]
        for run in runs:
            places = [(*place, step) for place in places for step in range(run.count)]
        for steps in places:
            remainders = tuple(run.first.remainder + step for run, step in zip(runs, steps, strict=True))
            assert remainders not in found
            found[remainders] = first_tap(conv, runs, steps), [alike(run.first) for run in runs]
    assert found == expected


def alike(phase: OutputPhase) -> OutputPhase:
    """Return what the phases of a run have in common."""
    return replace(phase, remainder=0, first=0, step=0)


def test_a_wide_stride_has_few_runs() -> None:
    """As a network for segmentation has that enlarges its result by 32, with 64 x 64 taps."""
    assert len(phases_of(turned([(32, 64, 1, 16)] * 2, 8))) == 1024
    assert len(runs_of(turned([(32, 64, 1, 16)] * 2, 8))) == 4


def test_a_usual_stride_has_code_for_each_phase() -> None:
    assert all(run.count == 1 for runs in runs_of(turned([(2, 2, 1, 0)] * 2, 8)) for run in runs)

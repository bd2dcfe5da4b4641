"""The estimate against what was measured on a Mali, and what it refuses to say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.testbeds.mali.article import MEASURED_GFLOPS, kernel
from toolchain.devices.kernel import Kernel
from toolchain.testbeds.mali.estimate import T860_MP4, estimate
from toolchain.testbeds.mali.statistics import Block, KernelStatistics, read_statistics

RECORDED = Path(__file__).parent / "recorded"


def compiled(*blocks: Block, loops: tuple[tuple[int, int], ...] = ()) -> KernelStatistics:
    return KernelStatistics(4, 10, 10, 10, 0, 0, 256, blocks, loops)


def launch(source: str, groups: int = 4) -> Kernel:
    return Kernel("k", source, (64, 1, 1), (groups, 1, 1))


@pytest.mark.parametrize("step", MEASURED_GFLOPS)
def test_estimate_matches_measurements_of_a_t860(step: str) -> None:
    """Three points of one layer: all the times of this GPU that there are in public."""
    launched = kernel(step)
    estimated = estimate(launched, read_statistics((RECORDED / f"{step}.txt").read_text()))
    assert estimated is not None
    assert estimated.multiplies == 256 * 3 * 3 * 16  # those of the layer, none counted twice
    assert estimated.gflops(launched.items) == pytest.approx(MEASURED_GFLOPS[step], rel=0.09)


def test_busiest_pipe_determines_the_time() -> None:
    one = launch("")
    for block, cycles in (
        (Block(arithmetic=10, load_store=4), 5),
        (Block(arithmetic=10, load_store=8), 8),
        (Block(arithmetic=2, load_store=1, texture=7), 7),
    ):
        estimated = estimate(one, compiled(block))
        assert estimated is not None and estimated.cycles == cycles
        assert estimated.ms == pytest.approx(64 * cycles / (T860_MP4.clock_mhz * 1e3))


def test_loops_are_weighted_by_trip_count() -> None:
    nested = launch("for (int i = 0; i < 3; ++i) { for (int j = 0; j < 16; j += 4) {} }")
    blocks = (Block(arithmetic=1), Block(arithmetic=100), Block(arithmetic=1000, load_store=1), Block(1))
    estimated = estimate(nested, compiled(*blocks, loops=((1, 2), (2, 2))))
    assert estimated is not None
    assert estimated.arithmetic == 1 + 3 * 100 + 12 * 1000 + 1
    assert estimated.load_store == 12


def test_single_trip_loops_are_dropped() -> None:
    estimated = estimate(
        launch("for (int i = 0; i < 1; ++i) { for (int j = 0; j < 5; ++j) {} }"),
        compiled(Block(), Block(arithmetic=2), loops=((1, 1),)),
    )
    assert estimated is not None and estimated.arithmetic == 10


@pytest.mark.parametrize(
    "source",
    ["for (int i = 0; i < n; ++i) {}", "", "for (int i = 0; i < 2; ++i) for (int j = 0; j < 2; ++j) {}"],
)
def test_unknown_trip_counts_give_no_estimate(source: str) -> None:
    assert estimate(launch(source), compiled(Block(1), loops=((0, 0),))) is None


def test_idle_cores_do_not_speed_up() -> None:
    block = compiled(Block(load_store=10))
    times = {groups: estimate(launch("", groups), block) for groups in (1, 4, 5, 8)}
    ms = {groups: estimated.ms for groups, estimated in times.items() if estimated}
    assert ms[1] == ms[4] and ms[5] == ms[8] == 2 * ms[4]
    faster = estimate(launch(""), block, replace(T860_MP4, clock_mhz=1600))
    assert faster is not None and faster.ms == ms[4] / 2

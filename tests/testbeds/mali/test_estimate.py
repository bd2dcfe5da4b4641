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
def test_it_meets_what_was_measured_on_a_t860(step: str) -> None:
    """Three points of one layer: all the times of this GPU that there are in public."""
    launched = kernel(step)
    found = estimate(launched, read_statistics((RECORDED / f"{step}.txt").read_text()))
    assert found is not None
    assert found.multiplies == 256 * 3 * 3 * 16  # those of the layer, none counted twice
    assert found.gflops(launched.items) == pytest.approx(MEASURED_GFLOPS[step], rel=0.09)


def test_the_pipe_that_has_most_to_do_decides() -> None:
    one = launch("")
    for block, cycles in (
        (Block(arithmetic=10, load_store=4), 5),
        (Block(arithmetic=10, load_store=8), 8),
        (Block(arithmetic=2, load_store=1, texture=7), 7),
    ):
        found = estimate(one, compiled(block))
        assert found is not None and found.cycles == cycles
        assert found.ms == pytest.approx(64 * cycles / (T860_MP4.clock_mhz * 1e3))


def test_loops_count_as_often_as_they_turn() -> None:
    nested = launch("for (int i = 0; i < 3; ++i) { for (int j = 0; j < 16; j += 4) {} }")
    blocks = (Block(arithmetic=1), Block(arithmetic=100), Block(arithmetic=1000, load_store=1), Block(1))
    found = estimate(nested, compiled(*blocks, loops=((1, 2), (2, 2))))
    assert found is not None
    assert found.arithmetic == 1 + 3 * 100 + 12 * 1000 + 1
    assert found.load_store == 12


def test_a_loop_of_one_turn_is_no_loop_to_the_compiler() -> None:
    found = estimate(
        launch("for (int i = 0; i < 1; ++i) { for (int j = 0; j < 5; ++j) {} }"),
        compiled(Block(), Block(arithmetic=2), loops=((1, 1),)),
    )
    assert found is not None and found.arithmetic == 10


@pytest.mark.parametrize(
    "source",
    ["for (int i = 0; i < n; ++i) {}", "", "for (int i = 0; i < 2; ++i) for (int j = 0; j < 2; ++j) {}"],
)
def test_nothing_is_said_where_turns_are_not_known(source: str) -> None:
    assert estimate(launch(source), compiled(Block(1), loops=((0, 0),))) is None


def test_cores_that_stand_idle_are_no_help() -> None:
    block = compiled(Block(load_store=10))
    times = {groups: estimate(launch("", groups), block) for groups in (1, 4, 5, 8)}
    ms = {groups: found.ms for groups, found in times.items() if found}
    assert ms[1] == ms[4] and ms[5] == ms[8] == 2 * ms[4]
    faster = estimate(launch(""), block, replace(T860_MP4, clock_mhz=1600))
    assert faster is not None and faster.ms == ms[4] / 2

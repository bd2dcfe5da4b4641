"""The estimated time of a kernel's launch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.backends.packed.algorithms.launch import Launch, alone, groups_at_once, seconds
from toolchain.backends.packed.gpus import GpuRow

GPU = GpuRow(units=10, flops=1e12, tensors=4, bandwidth=1e12, cached=4e12)
NOTHING = Launch(groups=1, items=256, registers=32, local=0, operations=0, read=0, waits=0, memory=0)


def test_a_launch_that_does_nothing_costs_a_launch() -> None:
    assert seconds(NOTHING, GPU) == GPU.launch


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ({"memory": 1e6}, 1e-6),
        ({"groups": 10, "read": 4e5}, 1e-6),
        ({"groups": 10, "operations": 1e6}, 1e-6),  # a group for each unit
        ({"groups": 11, "operations": 1e6}, 2e-6),  # one unit has two
        ({"groups": 10, "items": 64, "operations": 1e6}, 4e-6),  # too few items to keep a unit busy
        ({"groups": 10, "waits": 3}, 3 * GPU.latency),
        ({"groups": 90, "waits": 3}, 6 * GPU.latency),  # a unit has 8 groups at once
        ({"memory": 1e6, "groups": 10, "operations": 3e6}, 3e-6),  # the longest of them
    ],
)
def test_the_longest_of_its_parts_counts(work: dict[str, float], expected: float) -> None:
    assert seconds(replace(NOTHING, **work), GPU) - GPU.launch == pytest.approx(expected)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({}, 8),  # of 2048 items
        ({"items": 16}, 32),
        ({"registers": 128}, 2),
        ({"local": 60 << 10}, 2),
        ({"local": 1 << 20}, 1),
    ],
)
def test_what_a_unit_has_limits_its_groups(limit: dict[str, int], expected: int) -> None:
    assert groups_at_once(replace(NOTHING, **limit), GPU) == expected


@given(
    st.builds(
        Launch,
        groups=st.integers(1, 10**5),
        items=st.sampled_from([32, 64, 128, 256, 1024]),
        registers=st.integers(16, 255),
        local=st.integers(0, 200 << 10),
        operations=st.floats(0, 1e9),
        read=st.floats(0, 1e7),
        waits=st.floats(0, 1e3),
        memory=st.floats(0, 1e9),
    ),
    st.sampled_from(["groups", "operations", "read", "waits", "memory", "local"]),
)
def test_more_work_takes_no_less_time(launch: Launch, kind: str) -> None:
    more = replace(launch, **{kind: getattr(launch, kind) * 2})
    assert seconds(more, GPU) >= seconds(launch, GPU) >= GPU.launch


def test_items_that_compute_alone_reach_half_of_the_peak() -> None:
    items, products = 10 * 256 * 8, 1e6
    assert alone(items, 256, products, 0, GPU) - GPU.launch == pytest.approx(
        2 * products * items / (GPU.units * GPU.flops * 0.5)
    )

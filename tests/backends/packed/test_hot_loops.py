"""The loops in which a network spends its time, read from the object: nothing in them goes to the stack."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

from benchmarks.arm.loops import HotLoop, hot_loops
from benchmarks.arm.model import share_of_bound
from benchmarks.arm.ours import build
from tests.backends.packed.arm_kernels import compiled, default
from tests.backends.packed.single import Layer
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice

pytestmark = pytest.mark.slow


@cache
def hottest(board: str, columns: int) -> HotLoop:
    """Return the hottest loop of a convolution of four tiles a row."""
    choice = DirectChoice(blocks=2, columns=columns)
    with tempfile.TemporaryDirectory() as folder:
        found = hot_loops(compiled(board, choice, 4 * columns, Path(folder)))
    return max(found, key=lambda loop: loop.products)


@pytest.mark.parametrize("board, columns", [("rk3399", 8), ("rk3399", 7), ("pynq", 4)])
def test_a_tile_that_fits_the_registers_does_not_spill(board: str, columns: int) -> None:
    loop = hottest(board, columns)
    assert loop.multiply_accumulates == loop.products > 0
    assert (loop.vector_spills, loop.scalar_spills, loop.calls) == (0, 0, 0)


@pytest.mark.parametrize("board, columns", [("rk3399", 16), ("rk3399", 14), ("pynq", 8)])
def test_one_that_does_not_is_found(board: str, columns: int) -> None:
    # So that the test above would fail if it had to.
    assert hottest(board, columns).vector_spills > 0


# Instructions for each vector of products, at most, of all hot loops: on the Cortex-A72, and the Cortex-A9.
LAYERS = {
    "of three channels": (Layer(3, 16, (112, 112), 7, 2, 3), 1.16, 1.45),
    "with a stride": (Layer(64, 64, (56, 56), 3, 2, 1), 1.16, 1.65),
    "pointwise": (Layer(64, 64, (28, 28), 1, 1, 0), 1.2, 1.55),
    "pointwise on a small image": (Layer(64, 64, (14, 14), 1, 1, 0), 1.2, 1.65),
    "depthwise": (Layer(64, 64, (56, 56), groups=64), 1.85, 2.5),
    "depthwise with a stride": (Layer(64, 64, (56, 56), stride=2, groups=64), 2.15, 3.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("board", ["rk3399", "pynq"])
@pytest.mark.parametrize("name", LAYERS)
def test_default_tiles_stay_in_registers(board: str, name: str, tmp_path: Path) -> None:
    layer, *most = LAYERS[name]
    loops = hot_loops(default(board, layer, tmp_path))
    assert loops
    assert [(loop.vector_spills, loop.scalar_spills, loop.calls) for loop in loops] == [(0, 0, 0)] * len(
        loops
    )
    products = sum(loop.multiply_accumulates for loop in loops)
    assert sum(len(loop.body) for loop in loops) <= most[board == "pynq"] * products


@pytest.mark.slow
@pytest.mark.parametrize(
    "network, least, board, cluster",  # layers of different shapes
    [
        ("mobilenet", 9, "rk3399", "cortex-a72"),
        ("mobilenet", 9, "pynq", "cortex-a9"),
        pytest.param("resnet-18", 15, "rk3399", "cortex-a72", marks=pytest.mark.full),
    ],
)
def test_networks_keep_their_sums_in_registers(
    network: str, least: int, board: str, cluster: str, tmp_path: Path
) -> None:
    built = build(f"zoo:{network}", board, cluster, tmp_path)
    sums = [loop for loop in hot_loops(built.objects[0]) if loop.by_lane]
    assert len(sums) >= least
    found = {f"{loop.function} {loop.start:#x}" for loop in sums if loop.vector_spills or loop.calls}
    assert not found
    assert all(loop.multiply_accumulates == loop.products for loop in sums)


def test_on_the_a72_nothing_but_the_multiplications_takes_time() -> None:
    assert share_of_bound(hottest("rk3399", 8), "cortex-a72") > 0.95


def test_the_model_sees_what_spilling_costs() -> None:
    assert share_of_bound(hottest("rk3399", 16), "cortex-a72") < 0.9

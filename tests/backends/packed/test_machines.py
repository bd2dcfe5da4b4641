"""Which machine a target's code is generated for."""

from __future__ import annotations

import pytest

from toolchain.backends.packed import machines
from toolchain.backends.packed.machine import Machine
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

ROWS = [
    machines.SSE,
    machines.AVX2,
    machines.AVX512,
    machines.AARCH64,
    machines.AARCH64_IN_ORDER,
    machines.ARMV7,
]


@pytest.mark.parametrize(
    ("board", "cpu", "machine"),
    [
        ("rk3399", "cortex-a72", machines.AARCH64),
        ("rk3399", "cortex-a53", machines.AARCH64_IN_ORDER),
        ("pynq", "cortex-a9", machines.ARMV7),
    ],
)
def test_a_cluster_of_a_board_is_a_machine(board: str, cpu: str, machine: Machine) -> None:
    target = target_for(load_profile(board), cpu)

    assert machines.machine_of(target) == machine.without_integers().having(()).of(target.threads)


@pytest.mark.parametrize(
    ("cpu", "machine"),
    [("x86-64-v2", machines.SSE), ("x86-64-v3", machines.AVX2), ("x86-64-v4", machines.AVX512)],
)
def test_x86_goes_by_its_level(cpu: str, machine: Machine) -> None:
    profile = load_profile("x86_64")
    cluster = profile.clusters[0].model_copy(update={"cpu": cpu})
    found = machines.machine_of(target_for(profile.model_copy(update={"clusters": (cluster,)}), threads=3))
    assert found == machine.without_integers().having(()).of(3)


@pytest.mark.parametrize("machine", ROWS, ids=lambda machine: machine.isa)
def test_float16_doubles_the_lanes(machine: Machine) -> None:
    assert machine.of(1, "float16").lanes == 2 * machine.lanes == 2 * machine.vector // 4


@pytest.mark.parametrize("machine", ROWS, ids=lambda machine: machine.isa)
@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_sums_inputs_and_weights_of_a_tile_fit_the_registers(machine: Machine, blocks: int) -> None:
    columns = machine.columns(blocks)
    inputs = columns if machine.operand == "lane" else 1
    assert blocks * columns + blocks + inputs <= machine.registers

"""Machines with measured speeds: what changes, and what stays as it is for a class."""

from __future__ import annotations

from typing import Any

import pytest

from tests.architectures.test_rates import cluster, speeds
from tests.backends.packed.unbuffered import conv3x3
from toolchain.architectures.rates import ClusterRates
from toolchain.architectures.table import LINUX
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.table import class_rates
from toolchain.profiles import Cluster, Profile, load_profile
from toolchain.targets.target import target_for


def rates(**changes: Any) -> ClusterRates:
    return ClusterRates.model_validate(cluster(**changes))


def scaled(machine: Machine, found: ClusterRates) -> Machine:
    return machines.measured(machine, found, LINUX["x86_64"].microarchitectures)


def of(cpu: str, threads: int = 1, found: ClusterRates | None = None) -> Profile:
    alone = Cluster(cpu=cpu, cores=threads, rates=found)
    return load_profile("x86_64").model_copy(update={"clusters": (alone,)})


def test_a_class_keeps_the_speeds_of_its_row() -> None:
    assert machine_of(target_for(of("x86-64-v4"))).rates is machines.AVX512.rates
    for name in ("rk3399", "pynq", "raspberrypi5"):
        profile = load_profile(name)
        row = class_rates(profile.triple, profile.clusters[0].cpu)
        assert machine_of(target_for(profile)).rates is row


def test_what_was_measured_takes_the_place_of_the_row() -> None:
    found = machine_of(target_for(of("x86-64-v4", found=rates()))).rates
    assert (found.peak, found.stream, found.cache) == (266e9, 36e9, 1 << 20)
    assert found.again == pytest.approx(100 / 36)
    assert 0.9 * 266e9 < found.flops <= 266e9
    assert found.values == pytest.approx(9e9 * 266 / 249)


def test_an_unknown_family_reaches_what_the_row_reached() -> None:
    found = scaled(machines.AVX512, rates(family="GenuineIntel 6", one=speeds(1, 249.0, 16.0, l3=28.8)))
    row = machines.AVX512.rates
    for each in ("flops", "values", "stream", "again", "spilled"):
        assert getattr(found.rates, each) == pytest.approx(getattr(row, each)), each


def test_threads_share_the_memory() -> None:
    found = machine_of(target_for(of("x86-64-v4", 4, rates()))).rates
    assert (found.stream, found.peak) == (15e9, 250e9)


def test_without_its_products_a_machine_stays_as_it_is() -> None:
    assert scaled(machines.AVX2, rates()) is machines.AVX2
    assert scaled(machines.OPENCL, rates()) is machines.OPENCL


def test_the_late_layers_of_resnet_are_computed_by_winograd_on_a_fast_memory() -> None:
    """They took 0.9 ms in direct form and 0.6 ms by winograd on Zen 5; on a slower memory it is a draw."""
    late = conv3x3(512, 512, 7)
    assert default_choice(late, machines.AVX512, True).algorithm == "direct"
    assert default_choice(late, scaled(machines.AVX512, rates()), True).algorithm == "winograd"

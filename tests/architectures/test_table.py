"""The rows agree with the machine they run on, and a new row is all that a new architecture takes."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.architectures.architecture import Architecture, Level
from toolchain.architectures.table import ARCHITECTURES, LINUX, architecture_of, of_debian, wrong_system
from toolchain.configuration.keys import Settings
from toolchain.profiles import class_names, load_profile
from toolchain.records.record import level_rank

X86 = LINUX["x86_64"]
FLAGS = sorted(X86.levels[-1].flags)


@pytest.mark.parametrize("key", ARCHITECTURES)
def test_a_row_is_found_by_its_triple(key: str) -> None:
    row = ARCHITECTURES[key]
    assert architecture_of(row.triple) is row
    assert row.triple.startswith(f"{row.name}-")
    assert wrong_system(row.triple) == ""
    assert row.android == row.triple.endswith("-android") == key.endswith("-android")


@pytest.mark.parametrize("name", class_names())
def test_every_class_has_a_row(name: str) -> None:
    profile = load_profile(name)
    assert profile.architecture.name == profile.arch
    assert profile.architecture.android == profile.android


def test_this_host_has_a_row_that_says_what_debian_calls_it() -> None:
    row = next(row for row in LINUX.values() if row.uname == platform.machine())
    said = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    assert of_debian(said.stdout.strip()) is row
    assert row.bits == os.sysconf("SC_LONG_BIT")
    assert row.uname in row.runs_on


@pytest.mark.parametrize("row", LINUX.values(), ids=list(LINUX))
def test_an_emulator_can_be_configured(row: Architecture) -> None:
    if row.qemu:
        assert {f"qemu_{row.qemu.name}", f"sysroot_{row.qemu.name}"} <= set(Settings.model_fields)


@pytest.mark.parametrize("row", LINUX.values(), ids=list(LINUX))
def test_a_cpu_has_the_products_whose_feature_is_among_its_flags(row: Architecture) -> None:
    assert row.products_of(()) == frozenset()
    assert row.products_of(row.features.values()) == set(row.products)
    for name, feature in row.products.items():
        assert name in row.products_of({row.features[feature]})


def test_names_are_of_one_row() -> None:
    for column in ("name", "triple", "uname", "debian", "docker", "edge_rt", "zig_target"):
        names = [getattr(row, column) for row in LINUX.values()]
        assert len(set(names)) == len(names), column


@pytest.mark.parametrize(
    "triple", ["riscv64-unknown-linux-gnu", "toaster", "", "riscv64-unknown-linux-android"]
)
def test_an_unknown_architecture_has_none(triple: str) -> None:
    assert architecture_of(triple) is None


@given(st.sets(st.sampled_from(FLAGS)))
def test_a_level_never_promises_a_missing_flag(flags: set[str]) -> None:
    flags_of = {level.name: level.flags for level in X86.levels}
    name = X86.level(flags)
    assert flags_of[name] <= flags
    better = list(flags_of)[list(flags_of).index(name) + 1 :]
    assert not any(flags_of[other] <= flags for other in better)


@pytest.mark.parametrize("row", LINUX.values(), ids=list(LINUX))
def test_code_of_a_lower_level_runs_on_a_higher_one_and_not_the_other_way(row: Architecture) -> None:
    names = [level.name for level in row.levels]
    for lower, higher in pairwise(names):
        assert level_rank(lower, higher) is not None
        assert level_rank(higher, lower) is None


def test_a_row_says_by_itself_what_follows_from_its_columns() -> None:
    arm = LINUX["armv7a"]
    assert arm.hard_float and not LINUX["aarch64"].hard_float
    slow = X86.rates["x86-64"]
    made = replace(
        X86,
        levels=(Level("rv64"), Level("rv64v", frozenset({"v"}))),
        rates={"rv64": slow, "rv64v": slow},
        features={"v": "v"},
        products={},
    )
    assert made.level(made.linux_features({"v", "unknown"})) == "rv64v"
    assert made.level(()) == "rv64"

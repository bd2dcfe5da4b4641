"""Names of CPU features: LLVM and this machine's kernel know them, and levels grow."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import tvm

from toolchain.architectures import table as features
from toolchain.architectures.table import LINUX

TABLES = {"x86_64": features.X86_64, "aarch64": features.AARCH64, "armv7a": features.ARMV7A}


@pytest.mark.parametrize("name", TABLES)
def test_llvm_knows_its_names(name: str) -> None:
    """A name that it does not know, it would ignore: code would be slower, and nobody told."""
    row = LINUX[name]
    made = {"kind": "llvm", "mtriple": row.triple}
    known = tvm.get_global_func("target.llvm_get_cpu_features")(
        tvm.target.Target({**made, "mcpu": "generic"})
    )
    assert known is not None
    with tvm.target.Target({**made, "mattr": [f"+{each}" for each in TABLES[name]]}) as target:
        for feature in TABLES[name]:
            assert tvm.get_global_func("target.target_has_feature")(feature, target), feature


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_each_of_linuxs_names_means_one_feature(table: Mapping[str, str]) -> None:
    assert len(set(table.values())) == len(table)
    assert all(name.replace("_", "").isalnum() and name.islower() for name in table.values())


def test_levels_grow_and_their_flags_can_be_told() -> None:
    """A profile's features are turned into Linux's names, of which a level asks."""
    for lower, higher in pairwise(features.X86_LEVELS):
        assert lower.flags < higher.flags
    assert features.X86_LEVELS[0].flags == frozenset()
    assert features.X86_LEVELS[-1].flags <= set(features.X86_64.values())


def test_this_machines_kernel_uses_these_names() -> None:
    """Of what the psABI asks of x86-64-v2, which every host of the toolchain has."""
    if platform.machine() == "x86_64":
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = set(next(line for line in lines if line.startswith("flags")).partition(":")[2].split())
        assert features.X86_LEVELS[1].flags <= flags

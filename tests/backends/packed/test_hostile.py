"""No value makes a function leave its buffers: called alone, unchecked, between unreadable pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx

from tests.backends.packed.computed import loaded
from tests.backends.packed.emulated import Called, run
from tests.backends.packed.test_emulated import written
from tests.models.bounds.cases import CASES, Case, drawn
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.lowering.graph.pipeline import fuse
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

DRAWS = 6
FIRST = {case.operator: case for case in reversed(CASES)}
"""One case of each operator."""

SOME = ("GatherND", "ScatterElements", "Div", "LSTM")
"""Operators that are quickly compiled: a gather, a scatter, a division, a length."""


def functions_of(case: Case, board: str) -> list[tuple[str, tirx.PrimFunc]]:
    """Return the functions that are generated for a network, whoever makes them."""
    target = target_for(load_profile(board))
    made = rewrite(fuse(loaded(case.model()).module, target.target), Choices(machine_of(target)))
    return [
        (f"{case.name}: {name.name_hint}", func)
        for name, func in made.module.functions.items()
        if isinstance(func, tirx.PrimFunc)
    ]


def check(cases: Sequence[Case], board: str, folder: Path) -> None:
    random = np.random.default_rng(0)
    calls = []
    for case in cases:
        for name, func in functions_of(case, board):
            outputs = written(func)
            for _draw in range(DRAWS):
                plain = [np.zeros([int(e) for e in each.shape], str(each.dtype)) for each in func.params]
                given = [drawn(array, random) for array in plain[:-outputs]]
                calls.append(Called(name, func, [*given, *plain[-outputs:]], outputs))
    run(calls, load_profile(board), folder)


@pytest.mark.slow
def test_on_this_host(tmp_path: Path) -> None:
    check(list(FIRST.values())[::3], "x86_64", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("board", ["rk3399", "pynq"])
def test_on_arm(board: str, tmp_path: Path) -> None:
    check([FIRST[operator] for operator in SOME], board, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("board", ["x86_64", "rk3399", "pynq"])
def test_all_on_each_machine(board: str, tmp_path: Path) -> None:
    check(CASES, board, tmp_path)

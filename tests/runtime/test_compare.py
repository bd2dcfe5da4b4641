"""A station compares outputs as a live run does: edge-rt and `tuning.boards.cases.wrong` agree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tuners.c_function import CFunction
from tests.runtime.conftest import Edge
from tests.runtime.offline_folder import ACTS
from toolchain.backends.packed.layout import Layout
from toolchain.boards.inventory.lookup import local_board
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Candidate, Entry, Parameter, write_case
from toolchain.tasks.task import Task
from toolchain.tuning.boards.cases import wrong
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.builders.choice import HostCompilers
from toolchain.tuning.offline import about
from toolchain.tuning.offline.packing import Packing
from toolchain.tuning.offline.proposals import Wanted
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans import plan

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
COPY = """Argument *arguments = b; char *from = (char *)data(arguments, 0), *to = (char *)data(arguments, 1);
for (int i = 0; i < %d; i++) to[i] = from[i]; return 0;"""
SHAPE = (1, 3, 5, 5)
PACKED = Layout(4, (1, 0, 2, 1))


@dataclass(frozen=True)
class Same(Task):
    """Copies its input."""

    @property
    def definition(self) -> str:
        """The input."""
        return "x"


def cases() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return outputs, and what they should be; the values that decide are on both sides of each limit."""
    random = np.random.default_rng(3)
    found = []
    for dtype in ("float32", "float16", "float64"):
        exact = random.standard_normal(SHAPE).astype(dtype)
        limit = {"float16": 2e-2}.get(dtype, 1e-3) * np.abs(exact).max()
        for name, error in (("equal", 0.0), ("near", 0.9 * limit), ("far", 1.2 * limit), ("nan", np.nan)):
            given = exact.copy()
            given[0, 1, 2, 3] += np.dtype(dtype).type(error)
            found.append((f"{dtype} {name}", given, exact))
        exact = exact.copy()
        exact[0, 0, 0, 0] = np.inf
        found.append((f"{dtype} infinite", np.where(np.isfinite(exact), exact, 7).astype(dtype), exact))
    for dtype in ("int8", "uint8", "int32", "float32"):
        exact = random.integers(0, 100, SHAPE).astype(dtype)
        for off, values in ((1, 1), (1, 0), (2, 1)):
            given = exact.copy()
            given.ravel()[:values] += np.dtype(dtype).type(off)
            found.append((f"{dtype} {values} off by {off}", given, exact))
    return found


def test_they_agree(native: Edge, tmp_path: Path) -> None:
    board, folder = local_board(), tmp_path / "folder"
    target = target_for(board.profile, None, 1)
    folder.mkdir()
    compilers = HostCompilers(1)
    expected = {}
    try:
        packing = Packing(
            folder,
            1 << 30,
            LibraryBuilder(compilers, board.profile, tmp_path),
            board,
            target,
            TuneOptions(repeat=1),
        )
        for place, (name, given, exact) in enumerate(cases()):
            layout = PACKED if place % 2 else None
            parameter = Parameter(SHAPE, given.dtype.name, layout)
            size = parameter.filled(given).nbytes
            code = CFunction(COPY % size, before=f'#include "{ACTS}"')
            candidate = Candidate(Entry("copy", name, f"{place:064}"), code, (parameter, parameter), 1)
            case = write_case(tmp_path, str(place), {0: given})
            case.expect([exact])
            packing.add(
                [Wanted(Same("c0ffee" * 8, "same", 1, 1, (SHAPE, SHAPE)), candidate, "search")],
                [case],
            )
            expected[name] = wrong([given], [exact])
        packing.fill()
    finally:
        compilers.close()
    document = about.FolderContents(
        plan="", model="", versions=about.versions_here(), target=about.for_target(target, ""), candidates=()
    )
    packing.write(
        document, plan.head(document.versions.runtime, target, TuneOptions(repeat=1, min_repeat_ms=0))
    )
    assert native("measure", folder, "--state", tmp_path / "rt")[0] == 0
    _head, *lines = map(json.loads, (folder / "results").read_text().splitlines())
    found = {name: line["message"] for name, line in zip(expected, lines, strict=True)}
    assert found == expected
    assert {line["failure"] for line in lines} == {None, "wrong result"}
    assert 8 < sum(not message for message in expected.values()) < len(expected) - 8

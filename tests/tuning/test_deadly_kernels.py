"""Kernels of an emulated GPU that access what they may not or never end: each costs itself alone.

In a live run each session is a process of its own, on a station each candidate is.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.tuning.cuda_candidates import OUTCOMES, TASK, candidates, case_of, emulated
from toolchain.boards.inventory.lookup import local_board
from toolchain.runtime import ensure_runtime
from toolchain.testbeds.cuda import ensure_emulated_cuda
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.builders.choice import HostCompilers
from toolchain.tuning.events import Event
from toolchain.tuning.offline import about, plan
from toolchain.tuning.offline.operands import CaseInputs
from toolchain.tuning.offline.packing import Packing
from toolchain.tuning.offline.proposals import Wanted
from toolchain.tuning.options import TuneOptions

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
HOW = TuneOptions(repeat=2, min_repeat_ms=1, timeout_s=4, builders="1")


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGE_CUDA_DRIVER", str(ensure_emulated_cuda()))


def test_in_a_live_run(tmp_path: Path) -> None:
    board = local_board()
    target = emulated(board.profile)
    events: list[Event] = []
    with board_evaluator([board], target, HOW, events.append) as evaluator:
        assert evaluator.device == "cuda:emulated"
        evaluator.runner.expect(TASK, [case_of(tmp_path)])
        built = [evaluator.builder.build([each])[0] for each in candidates(target).values()]
        assert [each.failure for each in built] == [None] * len(OUTCOMES)
        results = evaluator.runner.run(TASK, built)
    assert {name: result.failure for name, result in zip(OUTCOMES, results, strict=True)} == OUTCOMES
    outside = results[list(OUTCOMES).index("outside")]
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in outside.message
    assert results[-1].run_ms and results[-1].conditions is None, "this driver says nothing of clocks"
    assert not [event for event in events if "away" in str(event)]


def test_on_a_station(tmp_path: Path) -> None:
    board, folder = local_board(), tmp_path / "folder"
    target = emulated(board.profile)
    folder.mkdir()
    compilers = HostCompilers(1)
    try:
        builder = LibraryBuilder(compilers, board.profile, tmp_path)
        packing = Packing(folder, 1 << 30, builder, board, target, HOW)
        for each in candidates(target).values():
            packing.add([Wanted(TASK, each, "search")], [CaseInputs(case_of(tmp_path), {}, {})])
        packing.fill()
    finally:
        compilers.close()
    document = about.FolderContents(
        plan="",
        model="",
        versions=about.versions_here(),
        target=about.for_target(target, board.record_class),
        candidates=(),
    )
    runtime = ensure_runtime("x86_64")
    packing.write(document, plan.head(runtime.fingerprint, target, HOW))
    command = [str(runtime.program), "measure", str(folder), "--state", str(tmp_path / "rt")]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert json.loads(done.stdout)["measured"] == len(OUTCOMES), done
    _head, *found = map(json.loads, (folder / "results").read_text().splitlines())
    assert {name: each["failure"] for name, each in zip(OUTCOMES, found, strict=True)} == OUTCOMES
    assert {each["device"] for each in found if each["failure"] is None} == {"emulated"}
    assert found[1]["message"].startswith("[cause kernel-fault] ")

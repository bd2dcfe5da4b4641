"""Two emulated GPUs of this host are two boards, and a run measures on both at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuning.cuda_candidates import TASK, candidates, case_of, emulated
from toolchain.boards.edge_rt.install import install
from toolchain.boards.inventory.lookup import find_boards
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError
from toolchain.testbeds.cuda import ensure_emulated_cuda
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.options import TuneOptions

pytestmark = pytest.mark.slow
FILE = """
[boards.first]
class = "local"
host = "local"
groups = ["gpus"]
device = "cuda:0"

[boards.second]
class = "local"
host = "local"
groups = ["gpus"]
device = "cuda:{second}"
"""


@pytest.fixture
def inventory(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert not state.exists()
    monkeypatch.setenv("EDGE_CUDA_DRIVER", str(ensure_emulated_cuda()))
    monkeypatch.setenv("EDGE_CUDA_DEVICES", "2")
    monkeypatch.setenv("EDGE_CUDA_LOG", str(tmp_path / "log"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolchain.toml").write_text(FILE.format(second=1))
    configuration.cache_clear()
    return tmp_path


def test_both_measure(inventory: Path) -> None:
    boards = find_boards("gpus")
    assert [board.only_device for board in boards] == ["cuda:0", "cuda:1"]
    target = emulated(boards[0].profile)
    how = TuneOptions(repeat=1, min_repeat_ms=1, timeout_s=20, builders="1")
    with board_evaluator(boards, target, how, lambda _event: None) as evaluator:
        evaluator.runner.expect(TASK, [case_of(inventory)])
        (built,) = evaluator.builder.build([candidates(target)["sound"]])
        results = evaluator.runner.run(TASK, [built] * 4)
        assert [result.failure for result in results] == [None] * 4
        assert {result.board for result in results} == {"first", "second"}
        assert all(evaluator.runner.in_use_s.values())
    contexts = [line for line in (inventory / "log").read_text().splitlines() if "PrimaryCtxRetain" in line]
    assert {"0", "1"} == {line.partition('"device": ')[2][:1] for line in contexts}


@pytest.mark.usefixtures("inventory")
def test_each_knows_its_own() -> None:
    for board in find_boards("gpus"):
        runtime = install(board, drivers=True)
        (kind,) = [each for each in runtime.facts.devices if each.kind == "cuda"]
        assert len(kind.names) == 1
        argv = runtime.command("run")
        assert argv[argv.index("--only-device") + 1] == board.only_device
        assert argv[-1] == f"state-{board.only_device.replace(':', '-')}", "a lock of its own"


def test_one_that_is_not_there(inventory: Path) -> None:
    (inventory / "toolchain.toml").write_text(FILE.format(second=7))
    configuration.cache_clear()
    _first, second = find_boards("gpus")
    how = TuneOptions(repeat=1, min_repeat_ms=1, builders="1")
    with (
        pytest.raises(ToolchainError, match="is to compute on cuda:7, and the last one here is cuda:1"),
        board_evaluator([second], emulated(second.profile), how, lambda _event: None),
    ):
        pass

"""A run whose way to the board is not open says so before it touches a task, and where it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from toolchain.arrays import Array
from toolchain.boards.inventory.lookup import find_board
from toolchain.devices.kind import Failure
from toolchain.errors import ToolchainError
from toolchain.lowering.fused import probe_for
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Candidate, Case, Parameter, Probe
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.preflight import preflight


@dataclass
class Told:
    """Builds and runs what it was told becomes of it."""

    results: Sequence[Result]
    failure: Failure | None = None
    later: Result | None = None
    lanes: int = 1
    names: tuple[str, ...] = ("a", "b")
    waited: int = 0

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        self.cases = {task.workload: [case.expected() for case in cases]}

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        return [BuiltCandidate(each, None, self.failure, "zig: no such option") for each in candidates]

    def probe(self, task: Task, built: BuiltCandidate) -> list[Result]:
        assert self.cases[task.workload][0] is not None and built.failure is None
        return list(self.results)

    def run(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        """Say what came of it once a board was waited for."""
        assert task.workload in self.cases and len(built) == 1
        self.waited += 1
        return [self.later or self.results[0]]

    def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        raise AssertionError((task, built))

    def compare(self, task: Task, built: Sequence[BuiltCandidate], rounds: int) -> list[list[Result]]:
        raise AssertionError((task, built, rounds))


@pytest.fixture(scope="module")
def probe() -> Probe:
    return probe_for(target_for(find_board("local").profile))


def fails(probe: Probe, told: Told, folder: Path) -> str:
    with pytest.raises(ToolchainError) as caught:
        preflight(probe, Evaluator(told, told), folder)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("failure", ["build", "link"])
def test_what_cannot_be_made_is_told_with_its_step(probe: Probe, failure: Failure, tmp_path: Path) -> None:
    said = fails(probe, Told([], failure=failure), tmp_path)
    assert said.endswith(f"on this host, before anything is tuned: {failure}: zig: no such option")


@pytest.mark.parametrize("failure", ["upload", "timeout", "runtime", "wrong result"])
def test_a_board_that_fails_is_named_with_the_step(probe: Probe, failure: Failure, tmp_path: Path) -> None:
    said = fails(probe, Told([Result(failure=failure, message="the reason", board="a")]), tmp_path)
    assert "on board a" in said and said.endswith(f"{failure}: the reason")


def test_one_board_that_computes_wrongly_among_others_is_refused(probe: Probe, tmp_path: Path) -> None:
    results = [Result((1.0,), board="a"), Result(failure="wrong result", message="by 3", board="b")]
    assert "on board b" in fails(probe, Told(results), tmp_path)


def test_one_board_that_is_away_among_others_stops_nothing(probe: Probe, tmp_path: Path) -> None:
    results = [Result((1.0,), board="a"), Result(failure="upload", message="no server", board="b")]
    evaluator = Told(results)
    preflight(probe, Evaluator(evaluator, evaluator), tmp_path)
    assert not evaluator.waited, "there is one to begin with"


def test_where_all_boards_are_away_the_first_to_come_back_is_waited_for(probe: Probe, tmp_path: Path) -> None:
    away = Result(failure="upload", message="no server", board="a")
    evaluator = Told([away, replace(away, board="b")], later=Result((1.0,), board="b"))
    preflight(probe, Evaluator(evaluator, evaluator), tmp_path)
    assert evaluator.waited == 1
    never = Told(evaluator.results, later=away)
    assert fails(probe, never, tmp_path).endswith("upload: no server") and never.waited == 1


@dataclass(frozen=True)
class Difference:
    """What the kernel does not compute."""

    parameters: tuple[Parameter, ...]

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        return [[np.subtract(a, b)] for a, b in draws]


@dataclass(frozen=True)
class NoCode:
    """What no compiler takes."""

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        raise ToolchainError(f"LLVM writes no {symbol}")


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    board = find_board("local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        options = TuneOptions(repeat=1, min_repeat_ms=0)
        with board_evaluator([board], target_for(board.profile), options, lambda _event: None) as evaluator:
            yield evaluator


@pytest.mark.slow
def test_the_way_to_a_board_is_open(
    probe: Probe, evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Result] = []
    real = evaluator.runner.probe

    def seen(task: Task, built: BuiltCandidate) -> list[Result]:
        found.extend(real(task, built))
        return found

    monkeypatch.setattr(evaluator.runner, "probe", seen)
    preflight(probe, evaluator, tmp_path)
    (result,) = found
    assert (result.board, result.failure) == ("local", None) and result.mean_ms > 0


@pytest.mark.slow
def test_a_board_that_computes_something_else_is_found_out(
    probe: Probe, evaluator: Evaluator, tmp_path: Path
) -> None:
    other = replace(probe, reference=Difference(probe.reference.parameters))
    with pytest.raises(ToolchainError, match=r"on board local, .*: wrong result: differs"):
        preflight(other, evaluator, tmp_path)


@pytest.mark.slow
def test_what_does_not_compile_is_found_out(probe: Probe, evaluator: Evaluator, tmp_path: Path) -> None:
    other = replace(probe, candidate=replace(probe.candidate, code=NoCode()))
    with pytest.raises(ToolchainError, match=r"on this host, .*: build: LLVM writes no main"):
        preflight(other, evaluator, tmp_path)

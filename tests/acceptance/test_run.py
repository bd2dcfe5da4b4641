"""A run: results, interruption, resumption, the time; and nothing that is written tells whose board it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.documents import verified
from toolchain.acceptance import run
from toolchain.acceptance.context import AcceptContext, UnbuildableError
from toolchain.acceptance.document import read_acceptance
from toolchain.acceptance.run import Accepted, AcceptOptions, accept, planned
from toolchain.acceptance.state import read_state, state_file
from toolchain.acceptance.step import AcceptStep, StepEnd
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.transport import LostError
from toolchain.configuration.settings import configuration
from toolchain.errors import CheckError, MissingError, ToolchainError, UsageError

KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
TELLING = ("rosalind", "kitchen", "example", "experiments", "night-shift", "workhorse", "192.0.2", "jumper")
Do = Callable[[AcceptContext], StepEnd]


class Steps:
    """Steps of a run that do what a test says, and count how often."""

    def __init__(self) -> None:
        self.does: dict[str, Do] = {}
        self.calls: list[str] = []
        self.always: set[str] = set()

    def planned(self, _profile: object) -> list[AcceptStep]:
        return [AcceptStep(name, "", self._run(name), name in self.always) for name in self.does]

    def _run(self, name: str) -> Do:
        def does(context: AcceptContext) -> StepEnd:
            self.calls.append(name)
            return self.does[name](context)

        return does


def passes(_context: AcceptContext) -> StepEnd:
    return StepEnd("passed", "", verified())


def raises(error: BaseException) -> Do:
    def does(_context: AcceptContext) -> StepEnd:
        raise error

    return does


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    made = Steps()
    monkeypatch.setattr(run, "planned_steps", made.planned)
    return made


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path) -> Board:
    """Return a board with telling names whose files are in a folder of this host."""
    assert state
    (tmp_path / "toolchain.toml").write_text(
        '[boards.kitchen]\nclass = "rk3399"\nhost = "192.0.2.77"\nuser = "rosalind"\n'
        'jump = "jumper@gate.example.org"\n'
        f'root = "/srv/experiments"\ngroups = ["night-shift"]\nhost_key = "ssh-ed25519 {KEY}"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: "workhorse")
    (tmp_path / "rosalind" / "board").mkdir(parents=True)
    return replace(find_board("kitchen"), transport=LocalTransport(tmp_path / "rosalind" / "board"))


def accepted(board: Board, tmp_path: Path, **options: Any) -> Accepted:
    said: list[str] = []
    return accept(board, tmp_path / "out", AcceptOptions(**options), said.append, lambda _event: None)


def results(done: Accepted) -> dict[str, str]:
    return {step.name: step.result for step in done.document.steps}


def test_nothing_that_is_written_tells_whose_board_it_is(board: Board, tmp_path: Path, steps: Steps) -> None:
    secret = f"board kitchen: rosalind@192.0.2.77:/srv/experiments on workhorse: {Path.home()}"
    steps.does = {
        "facts": passes,
        "edge-rt": raises(ToolchainError(secret, secret)),
        "rates": raises(CheckError(secret)),
        "verify:cpu:mobilenet": raises(MissingError(secret)),
        "verify:cpu:vgg-19": raises(UnbuildableError(secret)),
        "bench:cpu": raises(UsageError(secret)),
    }
    done = accepted(board, tmp_path)
    assert results(done) == {
        "facts": "passed",
        "edge-rt": "failed",
        "rates": "failed",
        "verify:cpu:mobilenet": "skipped",
        "verify:cpu:vgg-19": "skipped",
        "bench:cpu": "failed",
    }
    for file in (done.json, done.html):
        text = file.read_text().lower()
        assert file.parent == tmp_path / "out" and file.name.startswith("rk3399-20")
        assert [
            word for word in (*TELLING, str(tmp_path).lower(), str(Path.home()).lower()) if word in text
        ] == []
    assert read_acceptance(done.json) == done.document


@pytest.mark.slow
def test_another_board_of_the_class_has_files_of_its_own(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does = {"facts": passes, "rates": raises(ToolchainError("later"))}
    first, second = accepted(board, tmp_path), accepted(replace(board, name="parlour"), tmp_path)
    assert second.json.name == first.json.name.replace(".json", "-2.json")
    again = accepted(board, tmp_path)
    assert again.json == first.json, "the same acceptance goes on"
    assert len(list((tmp_path / "out").iterdir())) == 4
    assert accepted(board, tmp_path, fresh=True).json.name == first.json.name.replace(".json", "-3.json")


def test_the_exit_code_follows_from_the_worst_step(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does = {"facts": passes, "rates": lambda _: StepEnd("missed", "slow"), "bench:cpu": passes}
    assert accepted(board, tmp_path, skips=("bench",)).problem("kitchen") is None
    steps.does["tune:cpu"] = raises(ToolchainError("x"))
    problem = accepted(board, tmp_path).problem("kitchen")
    assert problem is not None and problem.exit_code == 1 and "tune:cpu" in problem.message
    steps.does["verify:cpu:mobilenet"] = lambda _: StepEnd("failed", "wrong numbers", verified(), wrong=True)
    problem = accepted(board, tmp_path).problem("kitchen")
    assert isinstance(problem, CheckError) and problem.exit_code == 4
    assert "verify:cpu:mobilenet" in problem.message and "tune" not in problem.message


def test_an_interrupted_run_goes_on(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does = {"facts": passes, "edge-rt": raises(KeyboardInterrupt()), "rates": passes}
    with pytest.raises(KeyboardInterrupt):
        accepted(board, tmp_path)
    assert not (tmp_path / "out").exists()
    assert [fate for _, fate in planned(board, AcceptOptions())] == [
        "passed before",
        *["while time is left"] * 2,
    ]
    steps.does["edge-rt"] = passes
    assert set(results(accepted(board, tmp_path)).values()) == {"passed"}
    assert steps.calls == ["facts", "edge-rt", "edge-rt", "rates"]
    accepted(board, tmp_path)
    assert len(steps.calls) == 4, "a step that passed is not repeated"
    accepted(board, tmp_path, fresh=True)
    assert len(steps.calls) == 7


def test_what_failed_is_tried_again(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does = {"facts": raises(ToolchainError("x")), "edge-rt": lambda _: StepEnd("skipped", "no driver")}
    accepted(board, tmp_path)
    steps.does = {"facts": passes, "edge-rt": passes}
    assert set(results(accepted(board, tmp_path)).values()) == {"passed"}


def test_a_new_version_repeats_all(
    board: Board, tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.does = {"facts": passes}
    accepted(board, tmp_path)
    monkeypatch.setattr(run, "__version__", "9.9.9")
    assert accepted(board, tmp_path).document.toolchain == "9.9.9"
    assert steps.calls == ["facts", "facts"]


def test_without_time_only_what_must_be_begins(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does, steps.always = {"facts": passes, "rates": passes}, {"facts"}
    done = accepted(board, tmp_path, time_s=0.0)
    assert results(done) == {"facts": "passed", "rates": "skipped"}
    assert done.document.steps[1].reason == "no time left"
    assert results(accepted(board, tmp_path))["rates"] == "passed", "with more time it goes on"


def test_a_lost_board_ends_the_run_and_what_ended_is_kept(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does = {"facts": passes, "edge-rt": raises(LostError("the link broke")), "rates": passes}
    with pytest.raises(LostError, match="board kitchen: the link broke"):
        accepted(board, tmp_path)
    assert steps.calls == ["facts", "edge-rt"]
    kept = read_state(state_file("kitchen"))
    assert kept is not None and list(kept.steps) == ["facts"]


def test_the_board_is_left_as_it_was(board: Board, tmp_path: Path, steps: Steps) -> None:
    board.transport.put(b"theirs", "lib/a.so")

    def leaves(context: AcceptContext) -> StepEnd:
        context.board.transport.put(b"ours", "lib/b.so")
        context.board.transport.remove("lib/a.so")
        return StepEnd("passed")

    steps.does = {"facts": leaves, "edge-rt": raises(KeyboardInterrupt())}
    with pytest.raises(KeyboardInterrupt):
        accepted(board, tmp_path)
    assert list(board.transport.listing("lib")) == ["a.so"]


def test_what_a_killed_run_left_is_removed_by_the_next(
    board: Board, tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(context: AcceptContext) -> StepEnd:
        context.board.transport.put(b"ours", "lib/ours.so")
        raise KeyboardInterrupt

    def gone(*_given: object) -> None:
        raise LostError("gone")

    steps.does = {"facts": dies}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "remove_what_came", gone)
        accepted(board, tmp_path)
    assert board.transport.listing("lib")
    board.transport.put(b"provisioned since", "bin/edge-rt-x")
    steps.does = {"facts": passes}
    accepted(board, tmp_path, fresh=True)
    assert board.transport.listing("lib") == {} and list(board.transport.listing("bin")) == ["edge-rt-x"]


def test_another_board_of_the_same_name_begins_anew(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does = {"facts": passes}
    accepted(board, tmp_path)
    file = tmp_path / "toolchain.toml"
    file.write_text(file.read_text().replace(KEY, KEY[:-4] + "AAAB"))
    configuration.cache_clear()
    accepted(board, tmp_path)
    assert steps.calls == ["facts", "facts"]


def test_what_a_board_cannot_have_measured_is_a_failed_check(
    board: Board, tmp_path: Path, steps: Steps
) -> None:
    steps.does = {"verify:cpu:mobilenet": lambda _: StepEnd("passed", "", verified(gflop=-1.0))}
    done = accepted(board, tmp_path)
    assert results(done) == {"verify:cpu:mobilenet": "failed"} and done.wrong == ("verify:cpu:mobilenet",)


def test_a_word_of_skip_that_names_nothing_is_refused(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does = {"facts": passes}
    with pytest.raises(UsageError, match="--skip fact: there is no such step; the steps are: facts"):
        accepted(board, tmp_path, skips=("fact",))
    assert steps.calls == []


def test_the_document_is_json_with_the_versions(board: Board, tmp_path: Path, steps: Steps) -> None:
    steps.does = {"facts": passes}
    found = json.loads(accepted(replace(board, emulated=True), tmp_path).json.read_text())
    assert found["schema_version"] == 1 and found["emulated"] is True and found["board_class"] == "rk3399"
    assert (tmp_path / "out" / f"rk3399-emulated-{found['date']}.html").exists()

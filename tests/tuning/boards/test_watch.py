"""A board that is slow, hot, or dies again and again is dropped: another finishes, and it is free."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from benchmarks.tuners.c_function import asleep
from tests.waiting import until
from toolchain.boards.emulation import emulated
from toolchain.boards.inventory.lookup import local_board
from toolchain.files.scratch import scratch_folder
from toolchain.lowering.fused import probe_for
from toolchain.rpc import lab
from toolchain.rpc.client import TrackerClient
from toolchain.rpc.frames import HOST
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import write_case
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards import speed
from toolchain.tuning.boards.pool import BoardLostError, BoardPool, PooledBoard
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.boards.watch import Watch
from toolchain.tuning.events import Event, Notice
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.preflight import preflight

TASK = SimpleNamespace(id="c0ffee", name="sleeps", workload="c0ffee", flops=1)
QEMU = shutil.which("qemu-x86_64")
slow = pytest.mark.slow
in_emulator = pytest.mark.skipif(
    QEMU is None and not os.environ.get("CI"), reason="qemu-x86_64 makes a board slow"
)


class Run:
    """Two boards, of which `a` is the one that may be bad, and the search of a run on both."""

    def __init__(self, state: Path, stack: ExitStack) -> None:
        self.notices: list[str] = []
        self._stack = stack
        self._boards = [emulated.start("x86_64", kind="process", name=name) for name in ("a", "b")]
        self._root = state / "emulated" / "a" / "root"

    def begin(self) -> None:
        """Try both boards with the known-good kernel."""
        target = target_for(self._boards[0].profile, None, 1)
        how = TuneOptions(repeat=2, min_repeat_ms=1, timeout_s=30)
        folder = self._stack.enter_context(scratch_folder())
        evaluator = self._stack.enter_context(board_evaluator(self._boards, target, how, self._listen))
        preflight(probe_for(target), evaluator, folder)
        case = write_case(folder, "case", {})
        case.expect([np.zeros(1, np.int32)])
        evaluator.runner.expect(TASK, [case])
        self._runner, self._built = evaluator.runner, evaluator.builder.build([asleep(0.01)] * 4)

    def measure(self) -> list[str]:
        """Measure four candidates; return by whom."""
        results = self._runner.run(TASK, self._built)
        assert {result.failure for result in results} == {None}, (results, self.notices)
        return [result.board for result in results]

    def measure_until_aside(self) -> None:
        """Measure until the board is put aside; what it dies under may fail."""
        until(lambda: self._runner.run(TASK, self._built) and self.aside(), seconds=180)

    def slow_down(self) -> None:
        """Let what the board serves from now on run in an emulator: slower, and steadily so."""
        (program,) = (self._root / "bin").iterdir()
        real, size = self._root / "edge-rt", program.stat().st_size
        program.rename(real)
        script = f'#!/bin/sh\n[ "$1" != serve ] || exec {QEMU} -cpu max {real} "$@"\nexec {real} "$@"\n#'
        program.write_bytes(script.encode().ljust(size, b"#"))
        program.chmod(0o755)

    def kill_server(self) -> None:
        """Let the board die, or what runs there."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if str(self._root) in process.cwd():
                    process.kill()

    def restart(self) -> None:
        """Let the board die, and wait until the lab has it again."""
        before = self._port()
        self.kill_server()
        until(lambda: self._port() not in (0, before), seconds=180)

    def _port(self) -> int:
        with TrackerClient(HOST, lab.status().port) as tracker:
            return tracker.boards("x86_64+emulated").get("a", 0)

    def aside(self) -> str:
        """Return why the board was put aside; empty while it is not."""
        said = "board a is put aside for the rest of the run: "
        return next((text.removeprefix(said) for text in self.notices if text.startswith(said)), "")

    def assert_free(self) -> None:
        """Both boards of the lab can be had, the one put aside, too."""
        until(lambda: lab.status().keys["x86_64+emulated"] == {"total": 2, "free": 2, "pending": 0})
        assert lab.status().leases == ()

    def _listen(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.notices.append(event.text)


class Told:
    """A watch over boards that are there, which read what they are told."""

    def __init__(self, *names: str, emulated: bool = False) -> None:
        self.notices: list[str] = []
        self.readings = dict.fromkeys(names, Result((1.0,)))
        self.gone: set[str] = set()
        self.read: list[str] = []
        boards = [replace(local_board(), name=name, emulated=emulated) for name in names]
        self.pool = BoardPool(boards, SimpleNamespace(), self.notices.append)
        self.used = dict.fromkeys(names, 1.0)
        self.watch = Watch(self.pool, self._read, self.used, self.notices.append)

    def fit(self, name: str) -> bool:
        """Look at a board after a long time of use."""
        self.used[name] += 1e6
        return self.watch.fit(self.board(name))

    def board(self, name: str) -> PooledBoard:
        return next(pooled for pooled in self.pool.all if pooled.board.name == name)

    def _read(self, pooled: PooledBoard) -> Result:
        name = pooled.board.name
        self.read.append(name)
        if name in self.gone:
            raise BoardLostError("silent")
        self.used[name] += 0.1
        return self.readings[name]


def test_a_hot_board_cools_down_and_is_read_when_it_comes_back() -> None:
    told = Told("a", "b")
    assert told.fit("a") and told.fit("b")
    told.readings["a"] = Result((1.3,), temperature_c=81.0)
    assert [told.fit("a"), told.fit("b"), told.fit("a"), told.fit("a")] == [True, True, True, False]
    said = "it is at 81 °C, and the reference kernel takes 1.3 times as long as at the beginning"
    assert told.notices == [f"board a cools down for 30 s: {said}"]
    told.readings["a"] = Result((1.0,), temperature_c=60.0)
    assert told.watch.due(told.board("a"))
    assert told.fit("a")


@pytest.mark.parametrize("celsius", [None, 85.0])
def test_a_board_alone_is_used_and_once_it_is_said_what_was_seen(celsius: float | None) -> None:
    told = Told("a")
    assert told.fit("a")
    told.readings["a"] = Result((2.1,), temperature_c=celsius)
    assert all(told.fit("a") for _ in range(9))
    (notice,) = told.notices
    assert notice.startswith("board a may mislead, but there is no other: ")
    assert "the reference kernel takes 2.1 times as long as at the beginning" in notice


def test_of_an_emulated_board_alone_nothing_is_said_for_its_times_are_its_hosts() -> None:
    told = Told("a", emulated=True)
    assert told.fit("a")
    told.readings["a"] = Result((2.1,))
    assert all(told.fit("a") for _ in range(9))
    assert told.notices == []
    told.readings["a"] = Result(failure="wrong result", message="off by one")
    assert told.fit("a")
    (notice,) = told.notices
    assert "a known-good kernel fails there: wrong result: off by one" in notice


def test_a_session_that_is_killed_once_says_nothing_about_the_board() -> None:
    told = Told("a", "b")
    assert told.fit("a")
    killed = [Result(failure="runtime", message="the session was ended")]
    sound = told.watch._read

    def read(pooled: PooledBoard) -> Result:
        return killed.pop() if killed else sound(pooled)

    told.watch._read = read
    assert told.fit("a")
    assert not killed
    assert told.notices == []


def test_one_that_no_longer_computes_what_it_should_is_put_aside() -> None:
    told = Told("a", "b")
    assert told.fit("a")
    told.readings["a"] = Result(failure="wrong result", message="differs by 3")
    assert not told.fit("a")
    (notice,) = told.notices
    assert notice.endswith("a known-good kernel fails there: wrong result: differs by 3")
    assert told.board("a").aside


def test_one_that_goes_away_while_it_is_read_has_gone_away() -> None:
    told = Told("a", "b")
    told.watch.measured(told.board("b"), [Result((1.0,))])
    told.gone.add("a")
    for _ in range(3):
        with pytest.raises(BoardLostError):
            told.fit("a")
    assert told.notices[0].endswith(
        "it went away 3 times in 3 measurements, another board never did; the last time: silent"
    )


def test_one_whose_server_was_started_anew_is_read() -> None:
    told = Told("a")
    board = told.board("a")
    board.port = 7001
    assert told.watch.fit(board) and told.watch.fit(board)
    assert told.read == ["a"]
    board.port = 7002
    assert told.watch.fit(board) and told.watch.fit(board)
    assert told.read == ["a", "a"]


@pytest.fixture
def run(state: Path) -> Iterator[Run]:
    with ExitStack() as stack:
        yield Run(state, stack)
    assert lab.status() is None


@slow
@in_emulator
def test_one_that_is_slow_and_steady_from_the_beginning(run: Run) -> None:
    run.slow_down()
    run.begin()
    assert run.aside().startswith("the reference kernel takes ")
    assert run.aside().endswith(" times as long as on the other boards")
    assert run.measure() == ["b"] * 4
    run.assert_free()


@slow
@in_emulator
def test_one_that_is_slow_when_it_comes_back(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_FAR", 3.0)  # other work on the host must not do what the emulator does
    run.begin()
    assert run.notices == []
    assert set(run.measure()) == {"a", "b"}
    run.slow_down()
    run.restart()
    run.measure_until_aside()
    assert " times as long as at the beginning: it is " in run.aside()
    assert run.measure() == ["b"] * 4
    run.assert_free()


@slow
def test_one_that_dies_again_and_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_FAR", 1e3)  # other work on the host must not put it aside first
    run.begin()
    assert set(run.measure()) == {"a", "b"}

    def kill_whenever_it_is_used() -> None:
        while not run.aside():
            if any(lease["board"] == "a" for lease in lab.status().leases):
                run.kill_server()

    killer = threading.Thread(target=kill_whenever_it_is_used)
    killer.start()
    run.measure_until_aside()
    killer.join()
    assert run.aside().startswith("it went away 3 times in ")
    assert run.measure() == ["b"] * 4
    run.assert_free()

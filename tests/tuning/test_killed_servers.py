"""SIGKILL of what measures and of what compiles, in mid-run: it goes on, or ends and says why."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.plain import plain
from tests.tuning.test_boards import processes_of
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.errors import ToolchainError
from toolchain.models.load import Model
from toolchain.records.record import Record
from toolchain.records.store import RecordStore
from toolchain.tuning.boards import pool as board_pool
from toolchain.tuning.boards import runner
from toolchain.tuning.builders.choice import HostCompilers
from toolchain.tuning.events import Event, Notice, StepBegan, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.tune import tune
from toolchain.tuning.schedulers.scheduler import SCHEDULERS, RoundRobin, Turn

pytestmark = pytest.mark.slow
# A measurement takes 0.3 s: whoever looks every 10 ms finds one under way.
HOW = TuneOptions(
    trials=500,
    heaviest=1,
    tuner="random",
    scheduler="round-robin",
    repeat=2,
    min_repeat_ms=150,
    timeout_s=20,
)


def measuring(board: str, state: Path) -> tuple[int, int] | None:
    """Return the processes of a board's server and of its session once that has its library; else None."""
    for folder in (state / "emulated" / board / "root").glob("**/sessions/*-*"):
        with suppress(OSError):
            if not any(file.suffix == ".so" for file in folder.iterdir()):
                continue
            server = int(folder.name.partition("-")[0])
            children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
            if children:
                return server, int(children[0])
    return None


class Killer(threading.Thread):
    """Kills one thing after the other; then lets the run come to its end.

    Attributes
    ----------
    over
        Set once everything was killed, and both boards have measured since.
    """

    def __init__(self, state: Path, compilers: list[HostCompilers]) -> None:
        super().__init__(daemon=True)
        self._state, self._compilers = state, compilers
        self.events: list[Event] = []
        self.over = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            for kill in (self._session, self._server, self._all_servers, self._builders):
                kill()
                begin = len(self.events)
                until(lambda begin=begin: self._measured(begin) == {"a", "b"})  # type: ignore[misc]
        except BaseException as error:
            self.problem = error
        self.over.set()

    def _measured(self, begin: int) -> set[str]:
        trials = (event for event in self.events[begin:] if isinstance(event, Trial))
        return {trial.board for trial in trials if not trial.failure}

    def _session(self) -> None:
        _server, session = self._caught("a")
        os.kill(session, signal.SIGKILL)

    def _server(self) -> None:
        server, _session = self._caught("b")
        os.kill(server, signal.SIGKILL)

    def _all_servers(self) -> None:
        caught: list[tuple[int, int] | None] = []

        def both() -> bool:
            caught[:] = [measuring(name, self._state) for name in ("a", "b")]
            return all(caught)

        until(both)
        for server, _session in [both for both in caught if both]:
            os.kill(server, signal.SIGKILL)

    def _builders(self) -> None:
        (compilers,) = self._compilers
        for worker in compilers._workers:
            worker.kill()

    def _caught(self, board: str) -> tuple[int, int]:
        until(lambda: measuring(board, self._state))
        return measuring(board, self._state) or self._caught(board)


def searched(store: RecordStore) -> list[Record]:
    return [r for r in store.all() if r.provenance.trial is not None and not r.confirmed]


def test_a_run_goes_on(
    boards: list[Board], model: Model, store: RecordStore, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers: list[HostCompilers] = []

    def compilers_for(_builders: str | None, _notice: object) -> HostCompilers:
        compilers.append(HostCompilers(1))
        return compilers[0]

    monkeypatch.setattr(runner, "compilers_for", compilers_for)
    killer = Killer(state, compilers)

    class UntilAllIsKilled(RoundRobin):
        def next(self, _batch: int) -> Turn | None:
            return None if killer.over.is_set() else super().next(4)

    monkeypatch.setitem(SCHEDULERS, "round-robin", UntilAllIsKilled)

    def listen(event: Event) -> None:
        killer.events.append(event)
        if event == StepBegan("searching"):
            killer.start()

    result = tune(model, plain(boards[0]), boards, store, HOW, listen)
    killer.join()
    if killer.problem:
        raise killer.problem
    trials = [event for event in killer.events if isinstance(event, Trial) and event.stage == "search"]
    records = searched(store)
    assert len(records) == len(trials) == result.to_json()["trials"]
    assert len({record.digest for record in records}) == len(records), "nothing was measured twice"
    failed = [trial.message for trial in trials if trial.failure]
    assert len(failed) <= 1, "the killed session's alone: servers and builders say nothing about a candidate"
    said = [event.text for event in killer.events if isinstance(event, Notice)]
    for name in ("a", "b"):
        assert any(text.startswith(f"board {name} is away: ") for text in said)
        assert f"board {name} is back" in said


def test_servers_that_do_not_come_back_end_it_and_what_was_measured_is_kept(
    boards: list[Board], model: Model, store: RecordStore, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_pool, "ALL_AWAY_S", 2.0)
    (program,) = (state / "emulated" / "a" / "root" / "bin").iterdir()
    size = program.stat().st_size
    told: list[Trial] = []

    def listen(event: Event) -> None:
        if isinstance(event, Trial) and event.stage == "search":
            told.append(event)
            if len(told) == 1:
                program.unlink()  # what runs keeps it open
                program.write_bytes(b"#!/bin/false\n".ljust(size))
                program.chmod(0o755)
                for process in processes_of("a", state):
                    process.kill()

    how = replace(HOW, trials=16, min_repeat_ms=1)
    with pytest.raises(ToolchainError, match="no board could be reached for 2 s: a: ") as caught:
        tune(model, plain(boards[0]), boards[:1], store, how, listen)
    assert "what was measured is kept" in caught.value.hint
    assert 1 <= len(searched(store)) == len(told) < how.trials

"""A journal survives the crash of the process that writes it, and has one writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rollouts.made import began, outcome
from toolchain.errors import ToolchainError, UsageError
from toolchain.events.rollouts import BoardDone, JournalEvent, PhaseStarted, RolloutEnded, RolloutResumed
from toolchain.rollouts.course import outcomes_of, passed_phases
from toolchain.rollouts.journal import Journal, is_complete, journal_path, known_rollouts, read_journal

EVENTS: list[JournalEvent] = [
    began(("a",), ("b",)),
    PhaseStarted(phase=1),
    BoardDone(board="a", phase=1, outcome=outcome()),
]


OLD = """\
{"at":1.5,"event":"began","id":"20260101-000000-tiny-2.0.0-abcd","app":"tiny","version":"2.0.0","digest":"ab",\
"lab":{"board_class":"rk3399","error_ppb":400,"latency_us":10000},"phases":[["a"],["b"]],"left":[],"rules":\
{"phases":["1","100%"],"pause_s":0.0,"max_failures":0,"max_slowdown":1.5,"slack_us":1000,"at_once":32,"window_s":600.0}}
{"at":1.6,"event":"phase","phase":1}
{"at":1.7,"event":"power","board":"a","answered_s":2.5,"text":"board a was power-cycled"}
{"at":2.5,"event":"board","board":"a","phase":1,"outcome":{"state":"installed","version":"2.0.0","seconds":1.25,\
"bytes_sent":4096,"error":null,"hint":"","test":{"error_ppb":500,"latency_us":10000,"memory_kib":9000,"runs":5},\
"cause":null,"power_cycles":1}}
{"at":2.6,"event":"gate","phase":1,"passed":true,"reason":"1 board runs","latency_us":10000,"error_ppb":500}
{"at":2.7,"event":"ended","complete":false,"reason":"it was stopped"}
"""


def write(path: Path) -> None:
    with Journal(path) as journal:
        for event in EVENTS:
            journal.append(event)


def test_what_was_appended_is_read(state: Path) -> None:
    path = journal_path("one")
    assert path.is_relative_to(state)
    write(path)
    assert read_journal(path) == EVENTS
    assert outcomes_of(EVENTS) == {"a": outcome()}
    assert not is_complete(EVENTS) and is_complete([*EVENTS, RolloutEnded(complete=True)])
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_cut_leaves_a_journal_that_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "whole.jsonl")
    whole = (tmp_path / "whole.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    path = tmp_path / "cut.jsonl"
    for size in range(first, len(whole), 7):
        path.write_bytes(whole[:size])
        before = read_journal(path)
        with Journal(path) as journal:
            journal.append(EVENTS[-1])
        assert read_journal(path) == [*before, EVENTS[-1]]


def test_there_is_one_writer(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl"), pytest.raises(ToolchainError, match="another process"):
        Journal(tmp_path / "j.jsonl")


@pytest.mark.parametrize("content", [b"", b"{}\n", b"not json\n", b'{"event": "phase", "phase": 1}\n'])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="no journal of a rollout"):
        read_journal(path)


def test_journals_of_an_app_are_found_newest_first(state: Path) -> None:
    for number in (1, 2):
        write(journal_path(f"2026010{number}"))
    journal_path("broken").write_bytes(b"?\n")
    assert state.is_dir()
    assert [path.stem for path, _ in known_rollouts("tiny")] == ["20260102", "20260101"]
    assert known_rollouts("other") == []


def test_a_journal_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(OLD)
    events = read_journal(path)
    assert [event.event for event in events] == ["began", "phase", "power", "board", "gate", "ended"]
    outcome = outcomes_of(events)["a"]
    assert outcome.works and outcome.test is not None and outcome.test.latency_us == 10_000
    assert passed_phases(events) == {1} and not is_complete(events)
    with Journal(path) as journal:
        journal.append(RolloutResumed())
    assert read_journal(path)[:-1] == events

"""What is read: lines as they come, ends of commands that were killed, and nothing hostile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.events.logs import BEGAN, NAME, step, text_of, write_log
from tests.waiting import until
from toolchain.events.lines import BeganLine, EndLine, Line, StepLine
from toolchain.events.log import MOST_BYTES, MOST_LINE, EventLog, Follower

PROGRAM = """
import sys
from toolchain.events.lines import StepLine
from toolchain.events.log import EventLog
log = EventLog()
log.begin("build", "small.onnx")
log.write(StepLine(text="compiling"))
print("begun", flush=True)
sys.stdin.read()
"""


def told(lines: list[Line]) -> list[str]:
    """Return each line in a word or two."""
    return [
        line.text if isinstance(line, StepLine) else line.how if isinstance(line, EndLine) else line.event
        for line in lines
    ]


def read_all(folder: Path) -> list[str]:
    """Return what a new follower says of the only log."""
    follower, lines = Follower(folder), list[Line]()
    while found := follower.read():
        lines += found[NAME]
    return told(lines)


def test_a_folder_that_is_not_there_has_no_logs(tmp_path: Path) -> None:
    assert Follower(tmp_path / "events").read() == {}


def test_lines_come_as_they_are_written(state: Path) -> None:
    log = EventLog()
    follower = Follower(state / "events")
    log.begin("build", "small.onnx")
    assert [told(lines) for lines in follower.read().values()] == [["began"]]
    assert follower.read() == {}
    log.write(StepLine(text="compiling"))
    log.write(StepLine(text="linking"))
    assert [told(lines) for lines in follower.read().values()] == [["compiling", "linking"]]
    log.end(EndLine(how="done"))
    assert [told(lines) for lines in follower.read().values()] == [["done"]]
    assert follower.read() == {}


@pytest.mark.slow
def test_a_killed_command_is_seen_to_have_ended(state: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert command.stdout is not None and command.stdout.readline() == "begun\n"
        follower = Follower(state / "events")
        assert [told(lines) for lines in follower.read().values()] == [["began", "compiling"]]
        assert follower.read() == {}, "it is at work"
        command.send_signal(signal.SIGKILL)
        command.wait(60)
        found: dict[str, list[Line]] = {}
        until(lambda: found.update(follower.read()) or found)
        assert [told(lines) for lines in found.values()] == [["killed"]]
        assert follower.read() == {}
    finally:
        command.kill()
        command.communicate()


def test_a_line_that_is_cut_short_waits_for_its_rest(tmp_path: Path) -> None:
    text = text_of(BEGAN, step("one"), step("two"))
    path = write_log(tmp_path)
    follower, seen = Follower(tmp_path), list[Line]()
    with path.open("ab") as file:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)  # as a command at work
        for at in range(0, len(text), 7):
            file.write(text[at : at + 7])
            file.flush()
            for lines in follower.read().values():
                seen += lines
    assert told(seen) == ["began", "one", "two"]
    assert told(follower.read()[NAME]) == ["killed"]


HOSTILE: dict[str, dict[str, Any] | str] = {
    "no JSON": "{",
    "another document": "[]",
    "a number": "1e999",
    "no kind": {"at": 1.0},
    "an unknown kind": {"event": "shell", "at": 1.0, "command": "true"},
    "a key too many": {**step("x"), "html": "<b>"},
    "a wrong type": {"event": "step", "at": 1.0, "text": ["x"]},
    "a text for a number": {"event": "phase", "at": 1.0, "phase": "1"},
    "a negative count": {"event": "phase", "at": 1.0, "phase": -1},
    "no number": '{"event":"step","at":NaN,"text":"x"}',
    "no text": '{"event":"step","at":1.0,"text":"\\ud800"}',
    "no UTF-8": "\ud800",
    "deep": "[" * 100_000,
    "a second beginning": BEGAN,
    "too many tasks": {
        "event": "tasks",
        "at": 1.0,
        "trials": 1,
        "tasks": [{"id": "a", "name": "b", "weight": 1, "flops": 1}] * 3000,
    },
    "too long": json.dumps(step("x" * MOST_LINE)),
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_hostile_lines_are_skipped(tmp_path: Path, line: dict[str, Any] | str) -> None:
    write_log(tmp_path, BEGAN, line, step("after"))
    assert read_all(tmp_path) == ["began", "after", "killed"]


def test_nothing_counts_before_the_beginning_or_after_the_end(tmp_path: Path) -> None:
    end = {"event": "ended", "at": 3.0, "how": "done"}
    write_log(tmp_path, step("early"), end, BEGAN, step("in time"), end, step("late"), BEGAN)
    assert read_all(tmp_path) == ["began", "in time", "done"]


def test_a_killed_command_ended_when_it_last_wrote(tmp_path: Path) -> None:
    write_log(tmp_path, BEGAN, {**step("searching"), "at": 5.5})
    *_, end = Follower(tmp_path).read()[NAME]
    assert isinstance(end, EndLine) and (end.how, end.at) == ("killed", 5.5)


def test_texts_are_escaped_when_they_are_read(tmp_path: Path) -> None:
    write_log(tmp_path, {**BEGAN, "title": "\x1b[31m\u202e" + "x" * 9999, "boards": ["\x07"]})
    (began, _) = Follower(tmp_path).read()[NAME]
    assert (
        isinstance(began, BeganLine) and began.title.startswith(r"\x1b[31m\u202e") and len(began.title) < 500
    )
    assert began.boards == (r"\x07",)


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = write_log(tmp_path, BEGAN)
    os.truncate(path, 20 * MOST_BYTES)
    follower, calls, this = Follower(tmp_path), 0, psutil.Process()
    before = this.io_counters().read_chars
    while follower.read():
        calls += 1
    assert calls <= 2 and this.io_counters().read_chars - before <= 3 * MOST_BYTES


def test_what_is_no_log_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)  # to open it would wait for ever
    (tmp_path / NAME.replace("tune", "bench")).mkdir()
    (tmp_path / NAME.replace("tune", "run")).symlink_to("/dev/zero")
    write_log(tmp_path, BEGAN, name="notes.jsonl")
    write_log(tmp_path, BEGAN, name=NAME + ".gz")
    assert Follower(tmp_path).read() == {}


def test_a_removed_log_is_told_once(tmp_path: Path) -> None:
    path = write_log(tmp_path, BEGAN)
    follower = Follower(tmp_path)
    assert follower.read() and follower.removed() == []
    path.unlink()
    assert follower.read() == {} and follower.removed() == [NAME] and follower.removed() == []

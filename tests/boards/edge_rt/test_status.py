"""The status of a board: what its answer becomes, and what one that is away becomes."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.status import Status, status, statuses
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.transport import Completed, LostError
from toolchain.profiles import load_profile

ANSWER = """\
load_1min=0.25
uptime_s=3600
millidegrees=41000
millidegrees=52500
governor=schedutil
governor=performance
governor=schedutil
memory_free_kib=2097152
disk_free_kib=1023
node=/dev/dri/renderD128
"""


class Answering(LocalTransport):
    """Gives one answer to any command, once it may."""

    def __init__(self, root: Path, answer: str | Exception) -> None:
        super().__init__(root)
        self.answer = answer
        self.may = threading.Event()
        self.may.set()

    def run(self, argv: Sequence[str], input: bytes | None = None, timeout: float = 60.0) -> Completed:
        del input
        assert self.may.wait(timeout)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Completed(tuple(argv), 0, self.answer.encode(), b"")


def board(folder: Path, answer: str | Exception, name: str = "b", board_class: str = "rk3399") -> Board:
    return replace(
        local_board(), name=name, profile=load_profile(board_class), transport=Answering(folder, answer)
    )


def test_the_hottest_sensor_each_governor_once_and_whole_mebibytes(tmp_path: Path) -> None:
    found = status(board(tmp_path, ANSWER))
    assert found.error is None
    assert (found.load_1min, found.uptime_s, found.temperature_c) == (0.25, 3600, 52.5)
    assert found.governor == "performance,schedutil"
    assert (found.memory_free_mib, found.disk_free_mib) == (2048, 0)
    assert found.edge_rt is None and found.drivers == []
    assert found.devices[-1] == "/dev/dri/renderD128"
    document = json.loads(json.dumps(found.to_json()))
    assert (document["name"], document["class"]) == ("b", "rk3399") and "board_class" not in document


def test_status_of_board_without_facts(tmp_path: Path) -> None:
    found = status(board(tmp_path, ""))
    assert found.error is None
    told = (found.load_1min, found.temperature_c, found.governor, found.memory_free_mib, found.disk_free_mib)
    assert told == (None,) * 5


def test_a_board_that_cannot_be_reached_has_the_error_and_the_hint(tmp_path: Path) -> None:
    away = LostError("board b: no answer", "is it on?")
    found = status(board(tmp_path, away))
    assert (found.error, found.hint) == ("board b: no answer", "is it on?")
    assert found == Status("b", "rk3399", found.error, found.hint, devices=found.devices)


@pytest.mark.parametrize(
    "line", ["load_1min=much", "uptime_s=1e999", "millidegrees=hot", "memory_free_kib=-"]
)
def test_impossible_value_names_board(tmp_path: Path, line: str) -> None:
    found = status(board(tmp_path, line + "\n"))
    assert (found.error and "b" in found.error.split()[0:2]) or found.error.startswith("b")
    assert line.partition("=")[0] in found.error


def test_who_measures_and_who_waits_is_what_edge_rt_says(tmp_path: Path) -> None:
    measures = {"pid": 7, "what": "rpc session for anna@desk"}
    waits = [{"pid": 8, "what": "bench x\x1b", "waited_s": 12.5}, {"pid": 9, "what": "", "waited_s": 0.0}]
    said = {"version": "1.0.0", "devices": [], "holder": measures, "waiting": waits}
    found = status(board(tmp_path, f"info={json.dumps(said)}\n"))
    assert (found.edge_rt, found.holder) == ("1.0.0", measures)
    assert found.waiting == [{**waits[0], "what": r"bench x\x1b"}, waits[1]]
    older = status(board(tmp_path, 'info={"version": "1.0.0"}\n'))
    assert (older.edge_rt, older.holder, older.waiting) == ("1.0.0", None, [])
    lies = status(
        board(tmp_path, 'info={"version": "1.0.0", "waiting": [{"pid": -1, "what": "x", "waited_s": 1}]}\n')
    )
    assert lies.edge_rt is not None and lies.edge_rt.startswith("broken: ") and lies.waiting == []


def test_what_edge_rt_says_is_shown_without_control_characters(tmp_path: Path) -> None:
    found = status(board(tmp_path, "info=\x1b[31mno json\n"))
    assert found.edge_rt == r"broken: \x1b[31mno json"
    assert found.drivers == []


def test_statuses_come_as_they_arrive_and_a_late_board_delays_no_other(tmp_path: Path) -> None:
    late, fast = board(tmp_path, ANSWER, "late"), board(tmp_path, ANSWER, "fast")
    assert isinstance(late.transport, Answering)
    late.transport.may.clear()
    came = statuses([late, fast])
    assert next(came).name == "fast"
    late.transport.may.set()
    assert [each.name for each in came] == ["late"]

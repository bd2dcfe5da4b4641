"""The carrier of docs/howto/add-a-carrier.md brings a release to a board with the real installer."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import plugins
from tests.howto.page import ROOT, blocks
from tests.rollouts.toys import CLASS, CLOCK, PROGRAM, delivery, stocked, toy_board, write_policy
from toolchain.boards.board import Board
from toolchain.cli.rollouts.standing import RolloutStanding
from toolchain.errors import UsageError
from toolchain.events.rollouts import BoardMoved, Rules
from toolchain.releases.export import Delivery
from toolchain.rollouts import carriers
from toolchain.rollouts.carriers import OWN, carrier_of, find_carrier
from toolchain.rollouts.course import begin
from toolchain.rollouts.installer import give_first_trust
from toolchain.rollouts.journal import Journal, read_journal

PAGE = "add-a-carrier.md"
TEXT = (ROOT / "docs" / "howto" / PAGE).read_text()


@pytest.fixture
def attic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    """Install the page's package, and make the board of its `toolchain.toml`."""
    entry, table = blocks(PAGE, "toml")
    name, reference = re.findall(r'^(\w+) = "([\w:]+)"$', entry, re.MULTILINE)[0]
    assert (
        f'"{carriers.PLUGINS.group}"' in entry
        and f'carrier = "{name}"' in table
        and "[boards.attic]" in table
    )
    plugins.install(tmp_path, monkeypatch, group=carriers.PLUGINS.group, **{name: reference})
    module = reference.partition(":")[0]
    (tmp_path / f"{module}.py").write_text(blocks(PAGE)[0])
    monkeypatch.setenv("MAILBOX", str(tmp_path / "mailbox"))
    yield replace(toy_board(tmp_path / "attic"), carrier=name)
    carriers.PLUGINS.forget()
    sys.modules.pop(module, None)


def send(folder: Path, given: Delivery, board: Board, window_s: float) -> tuple[RolloutStanding, Path]:
    """Send a release by the board's carrier; return how it ended and its journal."""
    standing, path = RolloutStanding(), folder / "journal.jsonl"
    course = begin(given.signed, [board], Rules(window_s=window_s))
    with Journal(path) as journal:
        for event in journal.keep(carrier_of([board]).send(given, course, threading.Event())):
            standing.take(event)
            if isinstance(event, BoardMoved) and window_s:
                look(folder, board)
    return standing, path


def look(folder: Path, board: Board) -> None:
    """Do what the page's script does on the board."""
    (script,) = blocks(PAGE, "sh")
    root = folder / board.name
    environment = {
        "MAILBOX": f"{folder}/mailbox/{board.name}",
        "EDGE_RT": f"{root}/{PROGRAM}",
        "FIELD": "field",
    }
    subprocess.run(["sh", "-ec", script], cwd=root, env={**environment, **CLOCK}, check=True, timeout=60)


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_board_that_looks_into_its_mailbox_gets_the_release(attic: Board, tmp_path: Path) -> None:
    given = delivery(tmp_path)
    stocked(attic)
    assert given.trust is not None
    give_first_trust(attic, PROGRAM, given.trust.envelopes[0])
    write_policy(tmp_path / "attic", **{"class": CLASS})
    standing, path = send(tmp_path, given, attic, 60.0)
    (end,) = standing.ends()
    assert standing.all_work and (end.outcome.state, end.outcome.version) == ("installed", "2.0.0")
    assert [event.event for event in read_journal(path)] == ["began", "phase", "board", "ended"]


@pytest.mark.usefixtures("state")
def test_a_board_that_does_not_look_is_offline(attic: Board, tmp_path: Path) -> None:
    standing, _ = send(tmp_path, delivery(tmp_path), attic, 0.0)
    assert [end.outcome.state for end in standing.ends()] == ["offline"] and not standing.all_work


def test_what_it_cannot_do_is_refused_as_the_page_says(attic: Board) -> None:
    with pytest.raises(UsageError) as raised:
        carrier_of([attic]).need("rollback")
    assert f"error: {raised.value.message}\n" in TEXT


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \|([\w, ]*)\|", TEXT, re.MULTILINE)
    assert [name for name, *_ in rows] == list(OWN)
    for name, reaches, can in rows:
        carrier = find_carrier(name)
        assert carrier.reaches == reaches
        assert {word.strip() for word in can.split(",")} - {""} == carrier.can

"""`toolchain deploy`, `rollback` and `fleet status` with the real edge-rt on boards of this host."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands.fielded import APP, BOARDS, bundle_of, make_fleet, sign, write_policy
from tests.cli.refusals import refused
from tests.cli.running import Ran, Toolchain
from tests.measuring.small_network import built
from tests.reports.pages import Page, assert_stands_alone
from tests.waiting import until
from toolchain.bundles.read import Bundle
from toolchain.events.lines import Line, RolloutLine
from toolchain.events.log import Follower, events_folder
from toolchain.events.rollouts import BoardDone, RolloutEnded, RolloutResumed
from toolchain.rollouts.course import outcomes_of
from toolchain.rollouts.journal import read_journal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def networks(bundles: dict[str, Bundle], tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Bundle]:
    """Return two builds of the small network with other weights."""
    return bundles["local"], built("local", tmp_path_factory.mktemp("other"), flipped=1)


@pytest.fixture
def fleet(
    folder: Path,
    state: Path,
    invoke: Toolchain,
    networks: tuple[Bundle, Bundle],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return the state folder of a fleet of three, whose commands' folder has release 1.0.0 and a trust."""
    make_fleet(folder, invoke, networks[0], monkeypatch)
    return state


def versions(invoke: Toolchain) -> dict[str, str | None]:
    rows = invoke("fleet", "status", "--group", "field", "--json").document["boards"]
    return {row["name"]: row["version"] for row in rows}


def test_a_release_goes_to_a_group_and_back(
    fleet: Path, folder: Path, invoke: Toolchain, networks: tuple[Bundle, Bundle]
) -> None:
    first = bundle_of("1.0.0")
    none = invoke("fleet", "status", "--group", "field", "--json")
    assert [row["state"] for row in none.document["boards"]] == ["none"] * 3

    dry = invoke("deploy", first, "--group", "field", "--trust", "trust.json", "--dry-run", "--json").document
    assert [(row["name"], row["action"], row["version"]) for row in dry["boards"]] == [
        (name, "install", None) for name in BOARDS
    ]
    assert all(row["bytes"] > 0 and row["reason"] for row in dry["boards"])
    assert not list(fleet.glob("rollouts/*")) and not list(fleet.glob("boards/*/field"))

    options = ("--group", "field", "--phases", "1,100%", "--json")
    deployed = invoke("deploy", first, *options, "--trust", "trust.json")
    assert deployed.code == 0, deployed.err
    document = deployed.document
    assert set(document) == {"release", "boards", "complete", "reason", "journal"}
    assert (document["release"]["app"], document["release"]["version"]) == (APP, "1.0.0")
    assert [(row["name"], row["phase"], row["state"]) for row in document["boards"]] == [
        ("one", 1, "installed"),
        ("two", 2, "installed"),
        ("three", 2, "installed"),
    ]
    for row in document["boards"]:
        assert row["seconds"] > 0 and row["bytes_sent"] > 0 and row["error"] is None
        assert row["test"]["latency_us"] > 0
    assert "phase 2 of 2: 2 boards" in deployed.err

    again = invoke("deploy", first, "--board", "two", "--board", "two").out
    assert "unchanged" in again and again.count("two ") == 1

    second = sign(folder, invoke, networks[1], "2.0.0", "--unverified")
    assert invoke("deploy", second, "--group", "field").says("was verified by no board", "--allow-unverified")
    write_policy(fleet, "three", health=["sh", "-c", "echo the app is ill; exit 3"], health_tries=1)
    deployed = invoke("deploy", second, "--group", "field", "--allow-unverified", "--json")
    assert deployed.code == 1
    states = {row["name"]: row["state"] for row in deployed.document["boards"]}
    assert states == {"one": "installed", "two": "installed", "three": "rolled-back"}
    assert versions(invoke) == {"one": "2.0.0", "two": "2.0.0", "three": "1.0.0"}
    _look_at_the_page(invoke, folder, deployed)

    assert invoke("deploy", first, "--board", "one").says("older than 2.0.0", "--allow-downgrade")
    back = invoke("rollback", "--board", "one", "--board", "two", "--json")
    assert back.code == 0, back.err
    assert {(row["name"], row["state"], row["version"]) for row in back.document["boards"]} == {
        ("one", "rolled-back", "1.0.0"),
        ("two", "rolled-back", "1.0.0"),
    }
    back = invoke("rollback", "--board", "one", "--app", "another")
    assert back.code == 1 and "another" in back.out
    table = invoke("fleet", "status", "--group", "field").out
    assert table.count("1.0.0") == 3 and "the app is ill" in table
    _look_at_the_logs()


def _look_at_the_logs() -> None:
    """What `toolchain ui` would show of it."""
    logs = list(Follower(events_folder()).read().values())
    said = [(log[0].kind, log[-1].how, log[-1].message) for log in logs]
    assert said == [
        ("deploy", "done", ""),
        ("deploy", "done", ""),
        ("deploy", "failed", "1 board failed, more than --max-failures 0"),
        ("rollback", "done", ""),
        ("rollback", "failed", "a board did not go back"),
    ]
    assert {end.board: (end.outcome.state, end.works) for end in _ends(logs[2])} == {
        "one": ("installed", True),
        "two": ("installed", True),
        "three": ("rolled-back", False),
    }
    assert [(end.board, end.works) for end in _ends(logs[4])] == [("one", False)]


def _ends(log: list[Line]) -> list[BoardDone]:
    events = [line.rollout for line in log if isinstance(line, RolloutLine)]
    return [event for event in events if isinstance(event, BoardDone)]


def _look_at_the_page(invoke: Toolchain, folder: Path, deployed: Ran) -> None:
    """The page of a rollout in which one board failed, as a browser would read it."""
    made = invoke("report", deployed.document["journal"], "-o", "page.html", "--json").document
    assert made["boards"] == 3
    html = (folder / "page.html").read_text()
    page = Page(html)
    assert_stands_alone(html, page.tags.count("svg"))
    assert page.tags.count("svg") == 2  # boards by state, and box plots of latencies
    for words in (f"{APP} 2.0.0 to 3 boards", "2 of 3", "rolled-back", "the app is ill", "1 board failed"):
        assert words in page.text, words


UNKNOWN = "no board is in such a group"
BAD: list[tuple[str, list[str], int, list[str]]] = [
    ("no board", [], 2, ["no board is named", "--group"]),
    ("both", ["--group", "field", "--board", "one"], 2, ["exclude each other"]),
    ("an unknown board", ["--board", "on"], 2, ["there is no such board", "did you mean 'one'"]),
    ("an unknown group", ["--group", "gates"], 2, [UNKNOWN, "field"]),
    ("no phases", ["--group", "field", "--phases", "some"], 2, ["'some' is no number of boards"]),
    ("a phase of none", ["--group", "field", "--phases", "0"], 2, ["'0' is no number of boards"]),
    ("more than all", ["--group", "field", "--phases", "101%"], 2, ["'101%' is no number of boards"]),
    ("phases that shrink", ["--group", "field", "--phases", "3,1"], 2, ["less than the share before"]),
    ("no pause", ["--group", "field", "--pause", "soon"], 2, ["'soon' is no duration", "--help"]),
    ("no window", ["--group", "field", "--window", "-1"], 2, ["no duration", "--help"]),
    ("none at once", ["--group", "field", "--at-once", "0"], 2, ["at-once", "--help"]),
    ("a trust that is missing", ["--group", "field", "--trust", "no.json"], 2, ["no.json"]),
    ("a trust that is none", ["--group", "field", "--trust", "toolchain.toml"], 4, ["toolchain.toml"]),
    ("nothing to resume", ["--resume"], 2, ["no rollout of small 1.0.0 was interrupted"]),
]


@pytest.mark.parametrize(("options", "code", "says"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
@pytest.mark.usefixtures("fleet")
def test_refuses_undeployable_release(
    folder: Path, invoke: Toolchain, options: list[str], code: int, says: list[str]
) -> None:
    refused(invoke, folder, code, says, "deploy", bundle_of("1.0.0"), *options)


def unsigned(folder: Path) -> None:
    (folder / f"{bundle_of('1.0.0')}.release").unlink()


def other_bundle(folder: Path) -> None:
    path = folder / bundle_of("1.0.0")
    path.write_bytes(path.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    ("spoil", "code", "says"), [(unsigned, 2, "has no release"), (other_bundle, 4, "for another bundle")]
)
@pytest.mark.usefixtures("fleet")
def test_refuses_files_that_are_no_releases(
    folder: Path, invoke: Toolchain, spoil: Callable[[Path], None], code: int, says: str
) -> None:
    spoil(folder)
    refused(invoke, folder, code, [says], "deploy", bundle_of("1.0.0"), "--group", "field")


@pytest.mark.usefixtures("fleet")
def test_a_board_without_a_trust_takes_nothing(invoke: Toolchain) -> None:
    ran = invoke("deploy", bundle_of("1.0.0"), "--board", "one", "--window", "0")
    assert ran.code == 1 and "refused" in ran.out
    assert ran.says("hint: give it its first trust: `toolchain board provision one --trust FILE`")
    dry = invoke("deploy", bundle_of("1.0.0"), "--board", "one", "--dry-run", "--json").document
    assert [(row["action"], row["bytes"]) for row in dry["boards"]] == [("refuse", 0)]
    for command in (["rollback"], ["fleet", "status"]):
        assert invoke(*command, "--group", "gates").says(UNKNOWN)


class Terminal:
    """A terminal on which a process writes, read by a thread of its own."""

    def __init__(self) -> None:
        self._reading, self.writing = pty.openpty()
        self.shown = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                self.shown += os.read(self._reading, 1 << 16)
            except OSError:  # the last writer is gone
                return

    def close(self) -> str:
        os.close(self.writing)
        self._thread.join(60)
        os.close(self._reading)
        return self.shown.decode()


def test_ctrl_c_leaves_each_board_old_or_new_and_resume_goes_on(
    fleet: Path, folder: Path, invoke: Toolchain, networks: tuple[Bundle, Bundle]
) -> None:
    group = ("--group", "field")
    assert invoke("deploy", bundle_of("1.0.0"), *group, "--trust", "trust.json").code == 0
    second = sign(folder, invoke, networks[1], "2.0.0", "--unverified")
    for name in BOARDS:
        write_policy(fleet, name, health=["sleep", "3"])
    options = ("--allow-unverified", "--at-once", "1", "--json")
    terminal = Terminal()
    command = [sys.executable, "-m", "toolchain", "deploy", second, *group, *options]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=terminal.writing, text=True
    ) as ran:
        until(
            lambda: any(
                '"event":"board"' in path.read_text() and "2.0.0" in path.read_text()
                for path in journals(fleet)
            )
        )
        ran.send_signal(signal.SIGINT)
        out, _ = ran.communicate(timeout=120)
    shown = terminal.close()
    assert ran.returncode == 130, shown
    document: dict[str, Any] = json.loads(out)
    assert (document["complete"], document["reason"]) == (False, "it was stopped")
    assert all(words in shown for words in ("BOARD", "PHASE", "one", "installed", "stopping: boards that"))
    assert "Traceback" not in shown

    there = versions(invoke)
    said = {row["name"]: row["state"] for row in document["boards"]}
    assert there["one"] == "2.0.0" and there["three"] == "1.0.0" and said["three"] == "skipped"
    assert {name: version == "2.0.0" for name, version in there.items()} == {
        name: state == "installed" for name, state in said.items()
    }
    before = read_journal(Path(document["journal"]))
    assert isinstance(before[-1], RolloutEnded) and not before[-1].complete
    resumed = invoke("deploy", second, "--resume", "--allow-unverified", "--json")
    assert resumed.code == 0, resumed.err
    after = read_journal(Path(document["journal"]))
    assert after[: len(before)] == before and isinstance(after[len(before)], RolloutResumed)
    assert outcomes_of(after)["one"] == outcomes_of(before)["one"]
    assert set(versions(invoke).values()) == {"2.0.0"}


def journals(state: Path) -> list[Path]:
    return sorted(state.glob("rollouts/*.jsonl"))

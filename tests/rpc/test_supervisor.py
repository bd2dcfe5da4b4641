"""The lab's own process: one for a folder, answers who asks, and ends when nobody needs it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.boards.ssh.sshd import free_port, make_key
from tests.waiting import PATIENCE_S
from toolchain.boards.inventory.lookup import local_board
from toolchain.errors import ToolchainError, UsageError
from toolchain.processes.life import Life
from toolchain.rpc import control, supervisor
from toolchain.rpc.state import LabState, read_state, write_state
from toolchain.rpc.supervisor import Supervisor

pytestmark = pytest.mark.slow


@pytest.fixture
def where(state: Path) -> Iterator[Path]:
    """A lab's folder; who supervises there is ended with its test."""
    folder = state / "lab"
    (folder / "log").mkdir(parents=True)
    yield folder
    for process in psutil.process_iter(["cmdline"]):
        if str(folder) in (process.info["cmdline"] or []):
            process.kill()


def started(where: Path) -> dict[str, Any]:
    """Start a supervisor as the lab does; return what it says of itself."""
    read, write = os.pipe()
    command = [sys.executable, "-m", "toolchain.rpc.supervisor", "--folder", str(where), "--port", "0"]
    with os.fdopen(read) as lines:
        child = subprocess.Popen([*command, "--ready", str(write)], pass_fds=[write], cwd=where)
        os.close(write)
        line = lines.readline()
    assert child.wait(PATIENCE_S) == 0, "it leaves its parent"
    document: dict[str, Any] = json.loads(line)
    return document


def life_of(said: dict[str, Any]) -> Life:
    return Life(**said["supervisor"])


def joining(where: Path, **changed: object) -> dict[str, Any]:
    """Return the question of a user who adds boards."""
    user = {"token": "me", **asdict(Life.own())}
    common = {"do": "add", "user": user, "folder": str(where), "options": [], "keep": False}
    return {**common, "boards": [], **changed}


def ask(where: Path, question: dict[str, Any]) -> dict[str, Any]:
    return control.ask(where, question, PATIENCE_S)


def test_a_folder_has_one_and_the_second_says_so(where: Path) -> None:
    first = started(where)
    assert started(where) == {"held": True}
    running = read_state(where)
    assert running is not None and asdict(running.supervisor) == first["supervisor"] and not running.boards
    assert ask(where, {"do": "status"}) == {"boards": {}, "leases": [], "waiting": []}
    assert ask(where, {"do": "nothing that it knows"}) == {"ending": False}
    assert ask(where, {"do": "stop"}) == {"ending": True}
    assert life_of(first).ends_within(PATIENCE_S) and read_state(where) is None


def test_it_ends_in_order_when_it_is_told_to(where: Path) -> None:
    process = life_of(started(where))
    os.kill(process.pid, signal.SIGTERM)
    assert process.ends_within(PATIENCE_S)
    assert sorted(path.name for path in where.iterdir()) == ["lock", "log"]
    with pytest.raises(ToolchainError, match="has ended"):
        ask(where, {"do": "status"})


def test_one_whose_place_another_says_to_have_leaves_it_to_the_other(where: Path) -> None:
    process = life_of(started(where))
    other = LabState(Life.own(), 4711, {"theirs": "key"})
    write_state(where, other)
    assert process.ends_within(PATIENCE_S)
    assert read_state(where) == other


def test_it_ends_with_the_last_of_its_users_though_that_one_was_killed(where: Path) -> None:
    process = life_of(started(where))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as user:
        life = Life.of(user.pid)
        assert life is not None
        ask(where, joining(where, user={"token": "killed", **asdict(life)}))
        ask(where, joining(where))
        ask(where, {"do": "leave", "token": "me"})
        assert process.lasts(), "the other one is there"
        user.kill()
    assert process.ends_within(PATIENCE_S)


def test_it_ends_when_nobody_ever_comes(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_UNUSED_S", 0.0)
    read, write = os.pipe()
    asyncio.run(Supervisor(where).run(0, write))
    with os.fdopen(read) as lines:
        assert json.loads(lines.read()) == {"supervisor": asdict(Life.own())}
    assert [path.name for path in where.iterdir()] == ["log"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"boards": ["nosuch"]}, "nosuch"),
        (
            {"folder": "/no/such/folder", "boards": ["local"]},
            "/no/such/folder cannot be entered: No such file",
        ),
    ],
    ids=["board", "folder"],
)
def test_who_asks_for_what_is_not_there_is_told_and_is_no_user(
    where: Path, changed: dict[str, object], says: str
) -> None:
    process = life_of(started(where))
    ask(where, joining(where, user={**joining(where)["user"], "token": "another"}))
    with pytest.raises(UsageError, match=says):
        ask(where, joining(where, **changed))
    assert ask(where, {"do": "status"})["boards"] == {}
    assert psutil.Process(process.pid).cwd() == str(where), "nobody's folder is kept"
    ask(where, {"do": "leave", "token": "another"})
    assert process.ends_within(PATIENCE_S)


def test_a_key_that_no_board_has_is_refused_with_those_there_are(where: Path) -> None:
    started(where)
    with pytest.raises(UsageError, match="no board has the key 'x' in the lab; its keys are: none"):
        ask(where, {"do": "release", "key": "x"})
    board = local_board()
    answer = ask(where, joining(where, boards=["local"], keep=True))
    assert answer == {"ending": False}
    (status,) = ask(where, {"do": "status"})["boards"].values()
    assert (status["key"], status["state"], status["reason"]) == (board.tracker_key, "serving", None)
    with pytest.raises(UsageError, match=f"its keys are: {board.tracker_key}"):
        ask(where, {"do": "release", "key": "x"})
    assert ask(where, {"do": "release", "key": board.tracker_key}) == {"released": []}, "nobody has it"
    ask(where, {"do": "leave", "token": "me"})
    assert ask(where, {"do": "stop"}) == {"ending": True}


def entered(folder: Path, name: str, entry: dict[str, object]) -> str:
    """Write a toolchain.toml with one board; return its folder."""
    folder.mkdir()
    lines = [f"[boards.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    (folder / "toolchain.toml").write_text("\n".join(lines) + "\n")
    return str(folder)


def test_a_board_that_is_away_is_looked_for_where_its_entry_says_now(where: Path, tmp_path: Path) -> None:
    started(where)
    entry = {"class": "x86_64", "host": "127.0.0.1", "host_key": make_key(tmp_path / "key")}
    for name in ("before", "after"):
        port = free_port()
        folder = entered(tmp_path / name, "rk", {**entry, "port": port})
        ask(where, joining(where, folder=folder, boards=["local", "rk"]))
        status = ask(where, {"do": "status"})["boards"]
        assert (status["local"]["state"], status["rk"]["state"]) == ("serving", "away")
        assert f"127.0.0.1 port {port}: " in status["rk"]["reason"]
    ask(where, {"do": "stop"})


def test_a_board_that_serves_is_not_taken_for_another_of_its_name(where: Path, tmp_path: Path) -> None:
    started(where)
    here = {"class": "local", "host": "local"}
    before = entered(tmp_path / "before", "gpu", {**here, "device": "cuda:0"})
    after = entered(tmp_path / "after", "gpu", {**here, "device": "cuda:1"})
    ask(where, joining(where, folder=before, boards=["gpu"], keep=True))
    with pytest.raises(ToolchainError, match="has another board of the name gpu: its entry was changed"):
        ask(where, joining(where, folder=after, boards=["gpu"]))
    ask(where, joining(where, folder=before, boards=["gpu"]))
    ask(where, {"do": "stop"})

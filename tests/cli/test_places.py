"""Commands hold the labgrid place of their board, and release it however they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.boards.labgrid.coordinator import BIN, PLACE, Coordinator, coordinator
from tests.boards.ssh.sshd import sshd
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.waiting import until
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]


@pytest.fixture
def rack(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    """A board `rk` over SSH with a place; the commands' folder names both, and a relay that hangs."""
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    with ExitStack() as stack:
        server = stack.enter_context(sshd(tmp_path / "sshd"))
        running = stack.enter_context(coordinator(tmp_path / "c"))
        entry = {
            "class": "x86_64",
            "host": "127.0.0.1",
            "port": server.port,
            "host_key": server.host_key,
            "identity": str(server.identity),
            "root": str(server.root),
        }
        lines = ["[boards.rk]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
        lines += [f'labgrid = {{coordinator = "{running.address}", place = "{PLACE}"}}']
        lines += ['power = {cycle = ["sleep", "600"], on = ["true"], off = ["true"]}']
        (folder / FILE_NAME).write_text("\n".join([*lines, ""]))
        configuration.cache_clear()
        yield running


def test_a_command_releases_the_place_that_it_acquired(rack: Coordinator, invoke: Toolchain) -> None:
    on = invoke("board", "power", "on", "rk", "--json")
    assert on.code == 0 and on.document["answered_s"] is not None, on.err
    failed = invoke("board", "power", "cycle", "rk", "--timeout", "0.1")
    assert failed.code == 1 and failed.says("sleep, did not end within 0.1 s")
    assert rack.holder() == ""


def test_refuses_place_held_by_another_user(rack: Coordinator, invoke: Toolchain, folder: Path) -> None:
    rack.client("acquire", user="berta")
    said = [f"board rk: its place {PLACE}", "is held by berta on desk since 2", "wait_s"]
    refused(invoke, folder, 1, said, "board", "probe", "rk")
    refused(invoke, folder, 1, said, "board", "provision", "rk", "--dry-run")
    refused(invoke, folder, 1, said, "lab", "start", "rk")
    rack.client("release", user="berta")
    refused(invoke, folder, 1, ["nobody holds its place", f"-p {PLACE} acquire"], "lab", "start", "rk")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_ended_releases_the_place(
    rack: Coordinator, folder: Path, number: signal.Signals
) -> None:
    argv = [sys.executable, "-m", "toolchain", "board", "power", "cycle", "rk", "--force"]
    with subprocess.Popen(argv, cwd=folder, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        until(lambda: "switching rk: cycle" in child.stderr.readline())
        assert rack.holder()
        child.send_signal(number)
        assert child.wait(60) == 128 + number
    assert rack.holder() == ""

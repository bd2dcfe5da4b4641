"""`toolchain lab`."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
import pytest

from tests.cli.compiling import TOLD, tell_compiling
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from toolchain.rpc.session import open_session


def listening(pid: int) -> set[tuple[str, int]]:
    """Return addresses and ports that a process and its children listen at, as the kernel tells."""
    family = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    ours = {
        str(descriptor.readlink())
        for member in family
        for descriptor in Path(f"/proc/{member}/fd").iterdir()
        if descriptor.is_symlink()
    }
    found = set()
    for table, version in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in ours:  # 0A: TCP_LISTEN
                address, port = fields[1].split(":")
                # Words of 32 bits in the host's byte order, which is little-endian on our hosts.
                raw = b"".join(bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8))
                found.add((socket.inet_ntop(version, raw), int(port, 16)))
    return found


def test_a_listener_beyond_loopback_would_be_noticed() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104  # for an instant, to be seen
        assert ("0.0.0.0", server.getsockname()[1]) in listening(os.getpid())  # noqa: S104


@pytest.mark.usefixtures("state")
def test_status_without_running_lab(invoke: Toolchain) -> None:
    assert invoke("lab", "status", "--json").document["tracker"] is None
    assert "lab start" in invoke("lab", "status").out
    assert invoke("lab", "stop", "--json").document == {"stopped": False}
    assert invoke("board", "show", "local", "--json").document["lab"] == "no"
    assert "lab no" in invoke("board", "status", "local").out
    assert "lab" not in invoke("board", "show", "rk3399", "--json").document


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_start_status_stop(toolchain: Toolchain) -> None:
    try:
        started = toolchain("lab", "start", "local", "--json")
        assert started.code == 0, started.err
        status = toolchain("lab", "status", "--json").document
        assert status["tracker"].startswith("127.0.0.1:")
        assert status["keys"] == {"local": {"total": 1, "free": 1, "pending": 0}}
        assert status["states"] == {
            "local": {"key": "local", "state": "serving", "reason": None, "waits": None}
        }
        assert "local" in toolchain("lab", "status").out
        assert toolchain("board", "status", "local", "--json").document[0]["lab"] == "free"
        port = int(status["tracker"].partition(":")[2])
        opened = open_session("127.0.0.1", port, "local", 60, 10)
        shown = toolchain("board", "show", "local", "--json").document
        assert (shown["lab"], shown["lab_user"]) == ("leased", f"process {os.getpid()}")
        assert f"lab leased to process {os.getpid()}" in toolchain("board", "status", "local").out
        assert toolchain("lab", "release", "local", "--json").document == {"released": ["local"]}
        del opened
        unknown = toolchain("lab", "release", "rk3399")
        assert unknown.code == 2
        assert "its keys are: local" in unknown.err
        found = listening(status["pid"])
        assert len(found) >= 2, "the tracker and a server"
        assert {address for address, _ in found} == {"127.0.0.1"}
    finally:
        assert toolchain("lab", "stop", "--json").document == {"stopped": True}
    assert toolchain("lab", "status", "--json").document["tracker"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_compilation_of_edge_rt_is_reported(invoke: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_compiling(monkeypatch, "toolchain.rpc.lab")
    try:
        ran = invoke("lab", "start", "local", "--json")
        assert ran.code == 0 and ran.document["boards"] == ["local"]
        assert TOLD in ran.err.splitlines()
    finally:
        invoke("lab", "stop")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_refuses_port_in_use(toolchain: Toolchain, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused(toolchain, folder, 1, [str(port)], "lab", "start", "--board", "local", "--port", port)
    assert toolchain("lab", "status", "--json").document["tracker"] is None

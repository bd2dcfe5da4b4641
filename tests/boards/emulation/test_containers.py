"""Container boards: real systems with a real SSH server, there when they work, and gone otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.emulation import containers, emulated, stored
from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.ssh.hostkeys import write_known_hosts
from toolchain.boards.ssh.transport import SshTransport
from toolchain.configuration.settings import configuration
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images.engine import Container, Engine, connect
from toolchain.profiles import load_profile

pytestmark = pytest.mark.slow

LISTENING = "0A"  # a state in /proc/net/tcp
START = "from toolchain.boards.emulation import emulated; emulated.start('rk3399', 'container', name='box')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the state folder of this module's board."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        configuration.cache_clear()
        yield Path(os.environ["TOOLCHAIN_STATE_DIR"])
        _remove_containers(Path(os.environ["TOOLCHAIN_STATE_DIR"]))


@pytest.fixture(scope="module")
def started(folder: Path) -> str:
    """Start the board that the tests of this module share."""
    emulated.start("rk3399", "container", name="box")
    assert len(_ours(folder)) == 1
    return "box"


@pytest.fixture
def board(started: str) -> Iterator[Board]:
    found = find_board(started)
    assert isinstance(found.transport, SshTransport)
    yield found
    found.transport.close()


@pytest.fixture
def alone(state: Path) -> Iterator[Path]:
    """Return a state folder of the test's own, whose containers go with it."""
    yield state
    _remove_containers(state)


def _ours(state: Path) -> list[Container]:
    with connect() as engine:
        labelled = engine.containers(containers.PURPOSE)
    return [c for c in labelled if c.labels["edge-toolchain.state"] == str(state)]


def _remove_containers(state: Path) -> None:
    with connect() as engine:
        for container in _ours(state):
            engine.remove(container.id)


def _left(state: Path) -> list[str]:
    return sorted(p.name for p in (state / "emulated").iterdir() if p.name != ".lock")


def _ssh(board: Board, command: str, identity: Path | None = None) -> subprocess.CompletedProcess[str]:
    assert isinstance(board.transport, SshTransport)
    address = board.transport.address
    key = identity or address.identity
    return subprocess.run(
        [
            *("ssh", "-F", "none", "-p", str(address.port), "-l", str(address.user), "-i", str(key)),
            *("-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "BatchMode=yes"),
            *("-o", "StrictHostKeyChecking=yes", "-o", f"HostKeyAlias={address.name}"),
            *("-o", f"UserKnownHostsFile={write_known_hosts(address)}", address.host, command),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )


def _listening(table: str) -> list[str]:
    rows = [line.split() for line in table.splitlines()[1:]]
    return [row[1] for row in rows if row[3] == LISTENING]


def test_its_ssh_server_is_the_pinned_one_and_its_system_the_classes(board: Board) -> None:
    done = _ssh(board, "id -un; uname -m; sudo -n id -un; getconf GNU_LIBC_VERSION; awk 'BEGIN{print 6*7}'")
    assert done.stdout.split("\n")[:-1] == ["edge", "aarch64", "root", "glibc 2.36", "42"], done.stderr
    assert board.emulated and board.shared_cpu and board.record_class == "rk3399+emulated"
    assert emulated.kind(board.name) == "container" and emulated.condition(board.name) == "ready"


def test_its_programs_see_the_core_of_the_class(board: Board) -> None:
    environment = _ssh(board, "env").stdout.splitlines()
    assert "QEMU_CPU=cortex-a72" in environment
    done = board.transport.run(["./edge-rt", "info"])
    assert b'"asimd"' in done.stdout and b'"asimddp"' not in done.stdout, "a newer core than a Cortex-A72"


def test_only_its_key_logs_in(board: Board, tmp_path: Path) -> None:
    assert isinstance(board.transport, SshTransport)
    identity = board.transport.address.identity
    assert identity is not None and identity.stat().st_mode & 0o777 == 0o600
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    refused = _ssh(board, "id", tmp_path / "other")
    assert refused.returncode == 255 and "Permission denied (publickey)." in refused.stderr


def test_it_listens_on_loopback_alone(board: Board, folder: Path) -> None:
    assert isinstance(board.transport, SshTransport)
    port = f":{board.transport.address.port:04X}"
    here = _listening(Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text())
    assert [address for address in here if address.endswith(port)] == [f"0100007F{port}"]
    [container] = _ours(folder)
    with connect() as engine:
        inside = Path(f"/proc/{engine.process(container.id)}/net")
        there = _listening((inside / "tcp").read_text() + (inside / "tcp6").read_text())
    assert {address.rpartition(":")[2] for address in there} == {"0016"}, "sshd alone"


@pytest.mark.usefixtures("board")
def test_a_second_start_is_refused(folder: Path) -> None:
    for kind in ("container", "process", "auto"):
        with pytest.raises(UsageError, match="board box already runs"):
            emulated.start("rk3399", kind, name="box")
    with pytest.raises(UsageError, match="already a board of that name, of class rk3399"):
        emulated.start("raspberrypi4", "container", name="box")
    assert len(_ours(folder)) == 1


def test_after_a_power_cut_it_goes_on_as_it_was(board: Board, folder: Path) -> None:
    board.transport.put(b"kept", "note")
    [container] = _ours(folder)
    with connect() as engine:
        engine.kill(container.id)
        assert emulated.condition("box") == "exited"
        again = emulated.start("rk3399", "container", name="box")
        assert emulated.condition("box") == "ready"
        assert again.transport.run(["cat", "note"]).stdout == b"kept"
        engine.pause(container.id)
        assert emulated.condition("box") == "paused"
        emulated.start("rk3399", name="box")
        assert again.transport.run(["cat", "note"]).stdout == b"kept"
    assert isinstance(again.transport, SshTransport) and isinstance(board.transport, SshTransport)
    assert again.transport.address == board.transport.address
    again.transport.close()


def test_a_board_in_use_is_not_stopped(board: Board, folder: Path) -> None:
    process = board.transport.spawn(["sh", "-c", "sleep 600", "bin/edge-rt-busy"])
    try:
        [container] = _ours(folder)
        with connect() as engine:
            until(lambda: any("edge-rt-busy" in line for line in engine.programs(container.id)))
        with pytest.raises(ToolchainError, match=r"board box is in use by .*edge-rt-busy"):
            emulated.stop("box")
    finally:
        process.close()
    assert emulated.condition("box") == "ready"


def test_a_container_that_someone_removed_is_told_and_cleared_away(alone: Path) -> None:
    emulated.start("rk3399", "container", name="box")
    [container] = _ours(alone)
    with connect() as engine:
        engine.remove(container.id)
    assert emulated.condition("box") == "gone"
    with pytest.raises(ToolchainError, match=r"its container .* is gone") as raised:
        emulated.start("rk3399", "container", name="box")
    assert "toolchain board emulate stop box" in raised.value.hint
    emulated.stop("box")
    assert _left(alone) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_start_leaves_nothing(alone: Path, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", START], stderr=subprocess.PIPE) as starter:
        deadline = time.monotonic() + 300  # the image may have to be made
        while not _ours(alone):
            assert starter.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        starter.send_signal(number)
        said = starter.communicate(timeout=60)[1]
    assert stored.names() == []
    if number == signal.SIGINT:
        assert b"KeyboardInterrupt" in said
        assert _left(alone) == [] and _ours(alone) == []
    else:
        [lost] = _ours(alone)
        emulated.start("rk3399", "container", name="other")
        assert [c.id for c in _ours(alone)] != [lost.id] and len(_ours(alone)) == 1, "the next one sweeps"
        emulated.stop("other")
        assert _left(alone) == [] and _ours(alone) == []


def test_without_a_daemon_auto_is_a_process_and_container_an_error(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{state}/nothing")
    with pytest.raises(MissingError, match="no Docker daemon answers"):
        emulated.start("rk3399", "container")
    emulated.start("rk3399")
    assert emulated.kind("rk3399-emulated") == "process"
    emulated.stop("rk3399-emulated")
    assert _left(state) == []


def test_a_daemon_elsewhere_is_refused() -> None:
    elsewhere = Engine(None, "tcp://192.0.2.1:2375")
    with pytest.raises(UsageError, match=r"DOCKER_HOST=tcp://192\.0\.2\.1:2375: .* on this machine"):
        containers.prepare(elsewhere, load_profile("rk3399"), print)


@pytest.mark.usefixtures("board")
def test_without_the_daemon_a_container_board_is_listed_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as away:
        away.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
        assert emulated.condition("box") == "Docker does not answer"
        with pytest.raises(MissingError, match="no Docker daemon answers"):
            emulated.stop("box")
    assert emulated.condition("box") == "ready"


@pytest.mark.usefixtures("board")
def test_stop_removes_everything(folder: Path) -> None:
    emulated.stop("box")
    assert _left(folder) == [] and _ours(folder) == []

"""What is said, and what is left, when a board over SSH does not do what it should."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.boards.local.left import assert_gone, names, pids
from tests.boards.ssh.proxy import Proxy, proxy
from tests.boards.ssh.sshd import Sshd, make_key, sshd
from tests.boards.ssh.test_transport import owner
from tests.waiting import PATIENCE_S, until
from toolchain.boards.ssh import connection, wire
from toolchain.boards.ssh.address import SshAddress, Way
from toolchain.boards.ssh.authentication import RefusedError
from toolchain.boards.ssh.hostkeys import fingerprint
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError, UsageError

pytestmark = pytest.mark.slow

BIG = 32 << 20


@pytest.fixture
def link(server: Sshd) -> Iterator[Proxy]:
    with proxy(server.port) as running:
        yield running


@pytest.fixture
def far(server: Sshd, link: Proxy, tmp_path: Path) -> Iterator[SshTransport]:
    """A board behind the proxy, in a folder of the test's own."""
    root = tmp_path / "board"
    root.mkdir()
    transport = SshTransport(server.address(link.port), str(root))
    yield transport
    transport.close()


@pytest.fixture
def big(tmp_path: Path) -> Path:
    file = tmp_path / "big"
    file.write_bytes(os.urandom(1 << 20) * (BIG >> 20))
    return file


def test_a_changed_host_key_is_refused_with_both_fingerprints(server: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    board = SshTransport(replace(server.address(), host_key=other), "board")
    with pytest.raises(UsageError, match=r"host key of 127.0.0.1 has changed") as raised:
        board.run(["true"])
    assert fingerprint(other) in raised.value.message
    assert fingerprint(server.host_key) in raised.value.message
    assert "toolchain board repin bench" in raised.value.hint
    other = make_key(tmp_path / "ecdsa", "ecdsa")
    with pytest.raises(UsageError, match="no key of that type"):
        SshTransport(replace(server.address(), host_key=other), "board").run(["true"])


def test_a_wrong_key_is_tried_once(tmp_path: Path) -> None:
    make_key(tmp_path / "mine")
    with sshd(tmp_path / "sshd", "LogLevel VERBOSE") as strict:
        board = SshTransport(replace(strict.address(), identity=tmp_path / "mine"), "board")
        with pytest.raises(RefusedError, match=r"none of your keys is accepted .*mine\)") as raised:
            board.run(["true"])
        assert "--install-key" in raised.value.hint
        assert (strict.folder / "log").read_text().count("Connection from") == 2, (
            "the fixture's probe, and ours"
        )


def test_keys_that_cannot_be_used_are_named(server: Sshd, tmp_path: Path) -> None:
    locked, junk = tmp_path / "locked", tmp_path / "junk"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", locked], check=True, timeout=60
    )
    junk.write_text("no key")
    for file, says in ((locked, "ssh-add"), (junk, "left out: "), (tmp_path / "none", "you have no key")):
        with pytest.raises(RefusedError, match=says):
            SshTransport(replace(server.address(), identity=file), "board").run(["true"])


def test_a_locked_key_is_used_from_the_agent(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    locked.write_bytes(server.identity.read_bytes())
    locked.chmod(0o600)
    locked.with_name("locked.pub").write_bytes(server.identity.with_name("id.pub").read_bytes())
    with subprocess.Popen(["ssh-agent", "-D", "-a", tmp_path / "agent"], stdout=subprocess.DEVNULL) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        until((tmp_path / "agent").exists)
        subprocess.run(["ssh-add", "-q", locked], check=True, timeout=60)
        subprocess.run(
            ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", locked], check=True, timeout=60
        )
        board = SshTransport(replace(server.address(), identity=locked), str(server.root))
        assert board.run(["true"]).returncode == 0
        board.close()
        agent.terminate()


def test_reports_host_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, server: Sshd, link: Proxy
) -> None:
    link.delay_s = 0.1
    board = SshTransport(server.address(link.port), str(server.root))
    assert board.run(["true"]).returncode == 0
    board.close()
    monkeypatch.setattr(connection, "HANDSHAKE_S", 0.5)
    link.delay_s = 30
    begun = time.monotonic()
    with pytest.raises(LostError, match=r"no SSH server answered within 0.5 s"):
        board.run(["true"])
    assert time.monotonic() - begun < 25
    link.close()
    with pytest.raises(LostError, match=r"cannot reach 127.0.0.1 port .*: Connection refused"):
        board.run(["true"])
    with pytest.raises(LostError, match=r"cannot reach no-such-host.invalid"):
        SshTransport(SshAddress("no-such-host.invalid", None, "x", server.host_key), ".").run(["true"])


def test_a_cut_upload_leaves_the_old_file_and_the_next_one_comes_through(
    far: SshTransport, link: Proxy, big: Path
) -> None:
    far.put(b"old", "lib/x")
    far.close()
    link.cut_after = BIG // 2
    with pytest.raises(LostError, match="lib/x was not replaced"):
        far.put(big, "lib/x")
    folder = Path(far.root) / "lib"
    assert (folder / "x").read_bytes() == b"old"
    until(lambda: names(folder) == ["x"])
    far.put(big, "lib/x")
    assert (folder / "x").read_bytes() == big.read_bytes()


@pytest.mark.slow
def test_a_cut_command_ends_on_the_board_and_is_told(far: SshTransport, link: Proxy) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            far.run(["sh", "-c", "echo $$ > pids; sleep 300"], timeout=300)
        except BaseException as error:
            failures.append(error)

    process = far.spawn(["sh", "-c", "echo $$; sleep 300"])
    runner = threading.Thread(target=run)
    runner.start()
    numbers = [*pids(far), int(process.stdout.readline())]
    link.cut()
    runner.join(60)
    assert isinstance(failures[0], LostError)
    with pytest.raises(LostError):
        process.wait(60)
    process.close()
    assert_gone(numbers)
    assert far.run(["true"]).returncode == 0, "the next command connects anew"


@pytest.mark.slow
def test_a_suspended_board_is_noticed_within_half_a_minute_whatever_goes_on(
    tmp_path: Path, big: Path
) -> None:
    with sshd(tmp_path / "sshd") as frozen, proxy(frozen.port) as link:
        link.rate = 1e6
        boards = [SshTransport(frozen.address(port), str(frozen.root)) for port in (link.port, frozen.port)]
        boards.append(SshTransport(frozen.address(ssh="openssh"), str(frozen.root)))
        for board in boards[1:]:
            board.run(["true"])
        ended: dict[str, tuple[float, BaseException | None]] = {}

        def watch(name: str, work: Callable[[], object]) -> None:
            try:
                work()
                failure = None
            except ToolchainError as error:
                failure = error
            ended[name] = (time.monotonic(), failure)

        process = boards[1].spawn(["sleep", "300"])
        works: dict[str, Callable[[], object]] = {
            "upload": lambda: boards[0].put(big, "big"),
            "run": lambda: boards[1].run(["sleep", "300"], timeout=300),
            "spawn": lambda: process.wait(300),
            "by the client": lambda: boards[2].run(["sleep", "300"], timeout=300),
        }
        threads = [threading.Thread(target=watch, args=each, daemon=True) for each in works.items()]
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        assert not ended
        for session in frozen.sessions():
            session.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        for thread in threads:
            thread.join(60)
        assert {name: type(failure) for name, (_, failure) in ended.items()} == dict.fromkeys(
            works, LostError
        )
        assert max(at for at, _ in ended.values()) - stopped < 30
        assert "nothing was heard from it for 15 s" in str(ended["run"][1])
        assert not (frozen.root / "big").exists()
        assert boards[1].run(["true"]).returncode == 0, "sshd itself still answers"
        for board in boards:
            board.close()


@pytest.mark.slow
def test_a_slow_link_is_not_taken_for_a_dead_board(
    far: SshTransport, link: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SILENCE_S", 2.0)
    monkeypatch.setattr(connection, "BEAT_S", 0.4)
    link.rate = 1.5e6
    begun = time.monotonic()
    far.put(bytes(4_000_000), "x")
    assert time.monotonic() - begun > 2, "it was not slow"
    link.rate = None
    assert far.run(["sleep", "3"]).returncode == 0, "silence of a command is no silence of the board"


def test_a_file_passes_a_link_whose_queue_holds_it_for_longer_than_silence_may_last(
    server: Sshd, tmp_path: Path
) -> None:
    """At 64 kbit/s buffers on the way take it all at once, and every answer would wait behind it."""
    seconds: dict[str, float] = {}

    def put(way: Way) -> None:
        with proxy(server.port) as link:
            board = SshTransport(server.address(link.port, ssh=way), str(tmp_path))
            board.run(["true"])
            link.rate = 8000
            begun = time.monotonic()
            board.put(bytes(180_000), way)
            seconds[way] = time.monotonic() - begun
            assert len(board._connections) == 1
            board.close()

    ways: tuple[Way, ...] = ("paramiko", "openssh")
    threads = [threading.Thread(target=put, args=(way,)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert {way: (tmp_path / way).stat().st_size for way in ways} == dict.fromkeys(ways, 180_000)
    assert min(seconds.values()) > wire.SILENCE_S, "it was not slow"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB where we may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder],
        capture_output=True,
        timeout=60,
        check=False,
    )
    if mounted.returncode:
        assert "CI" not in os.environ, mounted.stderr
        pytest.skip("no tmpfs can be mounted here; the limit on a file's size stands for it")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True, timeout=60)


def test_a_full_disk_leaves_what_was_there(server: Sshd, small_disk: Path) -> None:
    board = SshTransport(server.address(), str(small_disk))
    board.put(b"old", "lib/x")
    with pytest.raises(
        ToolchainError, match=r"cannot write lib/x: No space left on device; nothing was left"
    ):
        board.put(bytes(8_000_000), "lib/x")
    assert (small_disk / "lib" / "x").read_bytes() == b"old"
    assert names(small_disk / "lib") == ["x"]
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True, timeout=60)
    with pytest.raises(ToolchainError, match=r"cannot write lib/x: Read-only file system"):
        board.put(b"new", "lib/x")
    with pytest.raises(ToolchainError, match=r"cannot remove lib: Read-only file system"):
        board.remove("lib")
    board.close()


def test_a_file_that_grows_too_large_leaves_what_was_there(ssh: SshTransport, server: Sshd) -> None:
    ssh.put(b"old", "lib/x")
    for session in server.sessions():
        psutil.Process(session.pid).rlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    with pytest.raises(ToolchainError, match="cannot write lib/x"):
        ssh.put(bytes(1_000_000), "lib/x")
    assert names(Path(ssh.root) / "lib") == ["x"]
    assert (Path(ssh.root) / "lib" / "x").read_bytes() == b"old"


def test_reports_unwritable_folder(server: Sshd) -> None:
    board = SshTransport(server.address(), "/proc")
    with pytest.raises(ToolchainError, match="cannot write lib/x: "):
        board.put(b"new", "lib/x")
    board.close()


def test_ctrl_c_during_an_upload_leaves_nothing(far: SshTransport, link: Proxy, big: Path) -> None:
    link.rate = 2e6
    with owner(far, f"print('on', flush=True); board.put(Path({str(big)!r}), 'lib/x')") as running:
        folder = Path(far.root) / "lib"
        until(lambda: folder.is_dir() and any(file.stat().st_size for file in folder.iterdir()))
        running.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert b"KeyboardInterrupt" in running.communicate(timeout=60)[1]
        assert time.monotonic() - begun < 25
    link.cut()
    until(lambda: names(folder) == [])

"""A board over SSH does what a local one does: the same commands, files and processes, on a real sshd."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.boards.local.left import STUBBORN, assert_gone, names, pids
from tests.boards.ssh.sshd import Sshd, sshd
from toolchain.boards.ssh.route import SocketLink
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import DeadlineError
from toolchain.errors import ToolchainError, UsageError

pytestmark = pytest.mark.slow


@pytest.fixture(params=["ssh", "by_client"])
def ssh(request: pytest.FixtureRequest) -> SshTransport:
    """A board over SSH, by each of the ways."""
    board: SshTransport = request.getfixturevalue(request.param)
    return board


def root(ssh: SshTransport) -> Path:
    return Path(ssh.root)


def owner(ssh: SshTransport, code: str) -> subprocess.Popen[bytes]:
    """Start a Python that has the same board as `board`."""
    address = ssh.address
    begin = (
        "import sys, time; from pathlib import Path; from toolchain.boards.ssh.address import *\n"
        "from toolchain.boards.ssh.transport import *\n"
        f"board = SshTransport(SshAddress('127.0.0.1', {address.port}, {address.user!r}, "
        f"{address.host_key!r}, Path({str(address.identity)!r}), use_config=False, ssh={address.ssh!r}), "
        f"{ssh.root!r})\n"
    )
    return subprocess.Popen([sys.executable, "-c", begin + code], stderr=subprocess.PIPE)


def test_a_command_runs_in_the_boards_folder_with_its_input(ssh: SshTransport) -> None:
    done = ssh.run(["sh", "-c", "cat; pwd; echo err >&2; exit 3"], input=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, f"in\n{ssh.root}\n".encode(), b"err\n")
    assert ssh.run(["cat"]).stdout == b""


def test_the_openssh_client_takes_the_same_way(ssh: SshTransport) -> None:
    assert ssh.is_remote and ssh.has_system
    argv = [*ssh.ssh_command(["-o", "LogLevel=ERROR"]), "echo $0; cat"]
    done = subprocess.run(argv, input=b"in\n", capture_output=True, timeout=60, check=True)
    assert done.stdout.endswith(b"\nin\n") and done.stderr == b""


def test_home_is_where_a_login_begins_whether_the_folder_is_there_or_not(ssh: SshTransport) -> None:
    gone = SshTransport(ssh.address, f"{ssh.root}/not/yet")
    with gone.at_home() as home:
        begun = home.transport.run(["sh", "-c", 'pwd; test -e "$1"', "sh", home.root])
    assert (begun.returncode, begun.stdout) == (1, f"{pwd.getpwuid(os.getuid()).pw_dir}\n".encode())


def test_another_accounts_folder_has_the_same_name(ssh: SshTransport) -> None:
    other = ssh.as_user("nobody-here")
    assert (other.root, other.address.host_key) == (ssh.root, ssh.address.host_key)
    with pytest.raises(ToolchainError, match="nobody-here"):
        other.run(["true"])


def test_large_input_and_output(ssh: SshTransport) -> None:
    data = os.urandom(3_000_000)
    assert ssh.run(["cat"], input=data).stdout == data
    assert len(ssh.run(["sh", "-c", "head -c 1000000 /dev/zero >&2"]).stderr) == 1_000_000
    assert ssh.run(["true"], input=data).returncode == 0


def test_a_signal_is_told_from_an_exit_code(ssh: SshTransport) -> None:
    assert ssh.run(["sh", "-c", "kill -SEGV $$"]).signal_name == "SIGSEGV"
    assert ssh.run(["sh", "-c", "kill -HUP $$"]).returncode == -signal.SIGHUP
    assert ssh.run(["sh", "-c", "exit 139"]).returncode == 139
    assert ssh.run(["sh", "-c", "ulimit -c"]).stdout == b"0\n"


@settings(max_examples=40)
@given(words=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
def test_arguments_arrive_unchanged(ssh: SshTransport, words: list[str]) -> None:
    assert ssh.run(["printf", "%s\\0", "--", *words]).stdout.decode().split("\0")[1:-1] == words


@pytest.mark.parametrize(
    "word", ["$(touch x)", "`touch x`", "'; touch x; '", "a\ntouch x\n", "-n", "*", "~", "", "!x"]
)
def test_nothing_is_expanded(ssh: SshTransport, word: str) -> None:
    assert ssh.run(["printf", "%s", word]).stdout.decode() == word
    assert names(root(ssh)) == []


def test_at_the_deadline_the_whole_group_is_killed(ssh: SshTransport) -> None:
    begun = time.monotonic()
    with pytest.raises(DeadlineError, match=r"sh did not end within 0.5 s"):
        ssh.run(["sh", "-c", STUBBORN], timeout=0.5)
    assert time.monotonic() - begun < 30
    assert_gone(pids(ssh))
    assert ssh.run(["true"]).returncode == 0


@pytest.mark.slow
def test_a_command_that_leaves_its_input_unread_is_killed_all_the_same(ssh: SshTransport) -> None:
    with pytest.raises(DeadlineError):
        ssh.run(["sh", "-c", "echo $$ > pids; sleep 300"], input=bytes(1_000_000), timeout=0.5)
    assert_gone(pids(ssh))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_ends_with_its_owner(ssh: SshTransport, number: signal.Signals) -> None:
    with owner(ssh, f"board.run(['sh', '-c', {STUBBORN!r}])") as running:
        children = pids(ssh)
        running.send_signal(number)
        running.communicate(timeout=60)
    assert_gone(children)


def test_children_left_by_a_spawned_process_end_with_it(ssh: SshTransport) -> None:
    process = ssh.spawn(["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $! > pids; exit 0"])
    numbers = pids(ssh)
    assert process.wait(60) == 0
    process.close()
    assert_gone(numbers)


def test_put_get_and_remove_files(ssh: SshTransport, tmp_path: Path) -> None:
    source = tmp_path / "x"
    source.write_bytes(b"abc")
    ssh.put(source, "a/b/x")
    ssh.put(b"12345", "a/b/-y z")
    ssh.put(b"#!/bin/sh\necho mine\n", "tool", executable=True)
    ssh.put(b"", "empty")
    assert {name: entry.size for name, entry in ssh.listing("a/b").items()} == {"x": 3, "-y z": 5}
    assert ssh.run(["./tool"]).stdout == b"mine\n"
    ssh.get("a/b/x", tmp_path / "back")
    ssh.get("empty", tmp_path / "nothing")
    assert ((tmp_path / "back").read_bytes(), (tmp_path / "nothing").read_bytes()) == (b"abc", b"")
    os.utime(root(ssh) / "a/b/x", (1, 1))
    ssh.touch("a/b/x")
    assert time.time() - ssh.listing("a/b")["x"].changed < 60
    ssh.remove("a/b/x")
    ssh.remove("a/b/x")
    ssh.remove("a")
    assert ssh.listing("a/b") == {}
    assert names(root(ssh)) == ["empty", "tool"]


@pytest.mark.parametrize("remote", ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0b"])
def test_paths_that_lead_outside_are_refused(ssh: SshTransport, tmp_path: Path, remote: str) -> None:
    for attempt in (
        lambda: ssh.put(b"x", remote),
        lambda: ssh.get(remote, tmp_path / "got"),
        lambda: ssh.listing(remote),
        lambda: ssh.touch(remote),
        lambda: ssh.remove(remote),
    ):
        with pytest.raises(UsageError, match="not a path inside"):
            attempt()


def test_reports_errors(ssh: SshTransport, tmp_path: Path) -> None:
    ssh.put(b"not executable", "bin/x")
    for attempt, says in (
        (lambda: ssh.run(["no-such-program"]), "cannot start no-such-program.*no such program"),
        (lambda: ssh.spawn(["bin/x"]), "cannot start bin/x.*Permission denied"),
        (lambda: ssh.run(["bin/y"]), "cannot start bin/y.*no such program"),
        (lambda: ssh.get("out.npz", tmp_path / "out.npz"), "has no file 'out.npz'"),
        (lambda: ssh.put(tmp_path / "nothing.so", "lib/x"), "nothing.so: no such file"),
        (lambda: ssh.put(b"", "bin"), "cannot write bin: Is a directory"),
        (lambda: ssh.touch("lib/y"), "cannot touch lib/y: no such file"),
    ):
        with pytest.raises(ToolchainError, match=says):
            attempt()
    root(ssh).rename(tmp_path / "gone")
    with pytest.raises(ToolchainError, match="is gone or was never made") as raised:
        ssh.run(["true"])
    assert raised.value.hint == "`toolchain board provision bench`"


def test_two_writers_of_one_file_leave_one_of_the_two(ssh: SshTransport) -> None:
    contents = [bytes([48 + i]) * 100_000 for i in range(4)]
    threads = [threading.Thread(target=ssh.put, args=(content, "lib/x")) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (root(ssh) / "lib" / "x").read_bytes() in contents
    assert names(root(ssh) / "lib") == ["x"]


def test_login_output_is_not_command_output(tmp_path: Path) -> None:
    force = """ForceCommand sh -c 'echo Welcome; echo Hi >&2; eval "$SSH_ORIGINAL_COMMAND"'"""
    with sshd(tmp_path / "noisy", force) as noisy:
        board = SshTransport(noisy.address(), str(noisy.root))
        assert board.run(["echo", "x"]).stdout == b"x\n"
        board.put(b"abc", "x")
        board.get("x", tmp_path / "x")
        assert (tmp_path / "x").read_bytes() == b"abc"
        assert board.listing("sub") == {}
        board.close()


def test_the_way_of_ssh_config_with_its_jump_is_taken(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / ".ssh" / "config"
    config.parent.mkdir()
    config.write_text(
        f"Host rack\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {server.identity}\n"
        f"  ProxyJump bastion\nHost bastion\n  HostName 127.0.0.1\n  Port {server.port}\n"
        f"  IdentityFile {server.identity}\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    from toolchain.boards.ssh.address import SshAddress

    board = SshTransport(SshAddress("rack", None, None, server.host_key, name="rack"), str(server.root))
    assert board.run(["sh", "-c", "echo $SSH_CLIENT"]).stdout.startswith(b"127.0.0.1")
    link = board._connections[0]._link
    board.close()
    assert isinstance(link, SocketLink) and link._proxy is not None
    assert link._proxy.returncode is not None, "the jump's client ends with the connection"
    config.write_text(
        config.read_text().replace("HostName 127.0.0.1\n  Port", "HostName 127.0.0.1\n  Port 1\n  #")
    )
    with pytest.raises(ToolchainError, match=r"Connection refused|[Cc]onnection closed|closed by"):
        board.run(["true"])

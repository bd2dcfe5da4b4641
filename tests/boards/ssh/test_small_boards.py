"""Boards whose login shell, start files or SSH server differ from Debian's: commands run and end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.local.left import assert_gone, pids
from tests.boards.ssh.beds import CSH, TCSH, account, dropbear, programs
from tests.boards.ssh.sshd import Sshd, sshd
from tests.boards.ssh.test_transport import owner
from tests.waiting import until
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import DeadlineError, LostError
from toolchain.errors import ToolchainError

pytestmark = pytest.mark.slow

WAYS = ("paramiko", "openssh")


def use(board: SshTransport, folder: Path) -> None:
    """Do on a board what everything else is made of."""
    script = 'cat; printf "%s|" "$@"; echo e >&2; exit 3'
    done = board.run(["sh", "-c", script, "sh", "a!b", "it's", "$x\n"], b"in\n")
    assert (done.returncode, done.stdout) == (3, b"in\na!b|it's|$x\n|")
    assert done.stderr.endswith(b"e\n"), "its start files may have said something before"
    board.put(b"abc", "lib/x")
    board.get("lib/x", folder / "back")
    assert (folder / "back").read_bytes() == b"abc"
    assert set(board.listing("lib")) == {"x"}
    process = board.spawn(["sh", "-c", "echo ready; cat; exit 7"])
    assert process.stdout.readline() == b"ready\n"
    process.close()
    assert process.poll() == 7


@pytest.mark.parametrize("shell", [TCSH, CSH], ids=["tcsh", "csh"])
def test_a_login_shell_may_be_csh(tmp_path: Path, shell: Path) -> None:
    there = account(tmp_path, shell)
    (there.home / ".cshrc").write_text("stty erase '^H'\nset prompt='> '\n")
    with sshd(tmp_path / "sshd", before=there.before) as server:
        board = SshTransport(server.address(), str(server.root))
        use(board, tmp_path)
        with pytest.raises(DeadlineError):
            board.run(["sh", "-c", "echo $$ > pids; sleep 300"], timeout=1)
        assert_gone(pids(board))
        board.close()


def test_ignores_output_of_bashrc(tmp_path: Path) -> None:
    there = account(tmp_path)
    (there.home / ".bashrc").write_text(
        "stty erase '^H'; echo oops >&2\nhead -c 30000 /dev/zero | tr '\\0' x\nsleep 1; echo late\n"
        "printf '\\033]0;title\\007\\033[31m'\nprintf 'no line end'\n"
    )
    with sshd(tmp_path / "sshd", "SetEnv SHLVL=0", before=there.before) as server:
        board = SshTransport(server.address(), str(server.root))
        done = board.run(["echo", "x"])
        assert done.stdout == b"x\n" and b"oops" in done.stderr, "it was read"
        board.put(b"abc", "x")
        board.get("x", tmp_path / "x")
        assert (tmp_path / "x").read_bytes() == b"abc"
        board.close()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("printf 'Which one? '; read answer; sleep 300", "after 2 s; the last that it printed: Which one?"),
        ("echo 'no network' >&2; exit 1", "did not start a command; the last that it printed: no network"),
        ("yes | head -c 200000", "did not start a command; the last that it printed: y"),
    ],
)
def test_a_bashrc_that_keeps_commands_from_starting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, says: str
) -> None:
    monkeypatch.setattr("toolchain.boards.ssh.remote.START_S", 2.0)
    there = account(tmp_path)
    (there.home / ".bashrc").write_text(line + "\n")
    with sshd(tmp_path / "sshd", "SetEnv SHLVL=0", before=there.before) as server:
        board = SshTransport(server.address(), str(server.root))
        with pytest.raises(ToolchainError, match="its login shell") as raised:
            board.run(["true"])
        assert not isinstance(raised.value, LostError)
        assert says in raised.value.message and "~/.bashrc" in raised.value.hint
        board.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_allows_one_session_in_a_connection_is_enough(tmp_path: Path, way: str) -> None:
    with sshd(tmp_path / "sshd", "MaxSessions 1") as server:
        board = SshTransport(server.address(ssh=way), str(server.root))
        for _ in range(5):
            assert board.run(["true"]).returncode == 0
        process = board.spawn(["cat"])
        use(board, tmp_path)
        with pytest.raises(DeadlineError):
            board.run(["sleep", "300"], timeout=0.5)
        process.close()
        assert len(board._connections) <= 3
        board.close()


def test_a_server_that_allows_no_session_says_which_setting(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd", "MaxSessions 0") as server:
        board = SshTransport(server.address(), str(server.root))
        with pytest.raises(ToolchainError, match="allows no more sessions") as raised:
            board.run(["true"])
        assert "MaxSessions" in raised.value.hint
        board.close()


def test_no_folder_for_temporary_files_is_needed_but_the_boards_own(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd", "SetEnv SHLVL=0 TMPDIR=/gone") as server:
        board = SshTransport(server.address(), str(server.root))
        assert board.run(["cat"], b"secret").stdout == b"secret"
        assert list(server.root.iterdir()) == []
        board.close()
        board = SshTransport(server.address(), "/proc")
        assert board.run(["echo", "x"]).stdout == b"x\n", "without input none is needed"
        with pytest.raises(ToolchainError, match="cannot start cat in /proc: no temporary folder") as raised:
            board.run(["cat"], b"secret")
        assert "/tmp, or /proc" in raised.value.hint
        board.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with dropbear(tmp_path_factory.mktemp("dropbear")) as running:
        yield running


@pytest.fixture(params=WAYS)
def board(request: pytest.FixtureRequest, small: Sshd, tmp_path: Path) -> Iterator[SshTransport]:
    (tmp_path / "board").mkdir()
    transport = SshTransport(small.address(ssh=request.param), str(tmp_path / "board"))
    yield transport
    transport.close()


def test_dropbear_is_used_as_any_server(board: SshTransport, tmp_path: Path) -> None:
    use(board, tmp_path)
    data = bytes(range(256)) * 8000
    assert board.run(["cat"], input=data).stdout == data


def test_a_command_on_dropbear_ends_at_its_deadline(board: SshTransport) -> None:
    with pytest.raises(DeadlineError):
        board.run(["sleep", "7707.5"], timeout=1)
    until(lambda: not programs("7707.5"), what="the end of the program")
    with pytest.raises(DeadlineError):
        board.run(["sh", "-c", "trap '' TERM; echo $$ > pids; sleep 300; :"], timeout=1)
    assert_gone(pids(board))
    assert board.run(["true"]).returncode == 0


def test_a_command_on_dropbear_ends_with_its_owner(board: SshTransport) -> None:
    with owner(board, "board.run(['sh', '-c', 'sleep 300 & echo $$ $! > pids; wait'])") as running:
        children = pids(board)
        running.send_signal(2)
        running.communicate(timeout=60)
    assert_gone(children)


@pytest.mark.parametrize("way", WAYS)
def test_a_link_that_breaks_as_a_command_begins_is_a_lost_link(tmp_path: Path, way: str) -> None:
    with sshd(tmp_path / "sshd", "ForceCommand kill -9 $PPID; sleep 10") as server:
        board = SshTransport(server.address(ssh=way), str(server.root))
        for attempt in (
            lambda: board.run(["true"]),
            lambda: board.talk(["cat"]),
            lambda: board.put(b"x", "x"),
        ):
            with pytest.raises(LostError):
                attempt()
        board.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("after", ["sleep 1; kill -9 $PPID", ":"])
def test_a_login_shell_that_is_killed_as_a_command_begins_is_a_lost_link(
    tmp_path: Path, way: str, after: str
) -> None:
    """So does a board that shuts down: its sessions end before its SSH server."""
    with sshd(tmp_path / "sshd", f"ForceCommand ({after}) >/dev/null 2>&1 & kill -TERM $$") as server:
        board = SshTransport(server.address(ssh=way), str(server.root))
        with pytest.raises(LostError):
            board.run(["true"])
        board.close()

"""This host as a board: what happens to files and processes, most of all when something goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.boards.local.left import STUBBORN, assert_gone, names, pids
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.transport import DeadlineError
from toolchain.errors import MissingError, ToolchainError, UsageError


def test_a_command_runs_in_the_boards_folder_with_its_input(board: LocalTransport) -> None:
    done = board.run(["sh", "-c", "cat; pwd; echo err >&2; exit 3"], input=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, f"in\n{board.root}\n".encode(), b"err\n")
    assert done.signal_name is None


def test_nothing_of_the_callers_variables_reaches_it(
    board: LocalTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD_OF_MINE", "1")
    seen = board.run(["env"]).stdout.decode().splitlines()
    assert {line.partition("=")[0] for line in seen} == {"PATH", "LC_ALL"}


def test_drivers_are_found_where_this_host_finds_them(
    board: LocalTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/driver/lib")
    assert "LD_LIBRARY_PATH=/opt/driver/lib\n" in board.run(["env"]).stdout.decode()
    own = LocalTransport(board.root, environment={"LD_LIBRARY_PATH": "/own"})
    assert "LD_LIBRARY_PATH=/own\n" in own.run(["env"]).stdout.decode()
    (tmp_path / "show").write_text("#!/bin/sh\nenv\n")
    (tmp_path / "show").chmod(0o755)
    emulated = LocalTransport(tmp_path, (str(tmp_path / "show"),))
    assert "LD_LIBRARY_PATH" not in emulated.run(["./x"]).stdout.decode()


def test_a_program_on_the_board_is_named_by_a_relative_path(board: LocalTransport) -> None:
    board.put(b"#!/bin/sh\necho mine\n", "bin/tool", executable=True)
    assert board.run(["bin/tool"]).stdout == b"mine\n"


def test_an_emulator_stands_before_the_boards_programs_and_there_are_no_others(tmp_path: Path) -> None:
    board = LocalTransport(tmp_path, ("echo", "-cpu", "x"))
    assert board.run(["bin/tool", "a"]).stdout.decode() == f"-cpu x {tmp_path}/bin/tool a\n"
    with pytest.raises(UsageError, match="no program 'uname'"):
        board.run(["uname"])


def test_a_signal_is_told_from_an_exit_code(board: LocalTransport) -> None:
    assert board.run(["sh", "-c", "kill -SEGV $$"]).signal_name == "SIGSEGV"
    assert board.run(["sh", "-c", "exit 139"]).signal_name is None


def test_a_crash_leaves_no_core_dump(board: LocalTransport) -> None:
    assert board.run(["sh", "-c", "sleep 0.1; ulimit -c"]).stdout == b"0\n"


@pytest.mark.slow
def test_at_the_deadline_the_whole_group_is_killed(board: LocalTransport) -> None:
    begun = time.monotonic()
    with pytest.raises(DeadlineError, match=r"sh did not end within 3 s"):
        board.run(["sh", "-c", STUBBORN], timeout=3)
    assert time.monotonic() - begun < 30
    assert_gone(pids(board))


def test_ctrl_c_kills_the_whole_group(board: LocalTransport) -> None:
    code = (
        "import sys; from pathlib import Path; from toolchain.boards.local.transport import LocalTransport\n"
        "LocalTransport(Path(sys.argv[1])).run(['sh', '-c', sys.argv[2]])\n"
    )
    argv = [sys.executable, "-c", code, str(board.root), STUBBORN]
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as owner:
        children = pids(board)
        owner.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in owner.communicate(timeout=60)[1]
    assert_gone(children)


def test_put_get_and_remove_files(board: LocalTransport, tmp_path: Path) -> None:
    source = tmp_path / "x"
    source.write_bytes(b"abc")
    board.put(source, "a/b/x")
    board.put(b"12345", "a/b/y")
    assert {name: entry.size for name, entry in board.listing("a/b").items()} == {"x": 3, "y": 5}
    board.get("a/b/x", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"abc"
    board.remove("a/b/x")
    board.remove("a/b/x")
    board.remove("a")
    assert board.listing("a/b") == {}
    assert names(board.root) == []


def test_touch_makes_a_file_the_newest(board: LocalTransport) -> None:
    board.put(b"", "lib/x")
    os.utime(board.root / "lib" / "x", (1, 1))
    board.touch("lib/x")
    assert time.time() - board.listing("lib")["x"].changed < 60
    with pytest.raises(ToolchainError, match="lib/y"):
        board.touch("lib/y")


@pytest.mark.parametrize("remote", ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0b"])
def test_paths_that_lead_outside_are_refused(board: LocalTransport, tmp_path: Path, remote: str) -> None:
    for attempt in (
        lambda: board.put(b"x", remote),
        lambda: board.get(remote, tmp_path / "got"),
        lambda: board.listing(remote),
        lambda: board.touch(remote),
        lambda: board.remove(remote),
    ):
        with pytest.raises(UsageError, match="not a path inside"):
            attempt()
    assert board.root.is_dir()
    assert names(tmp_path) == ["root"]


def test_a_full_disk_leaves_what_was_there(board: LocalTransport) -> None:
    board.put(b"old", "lib/x")
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from toolchain.boards.local.transport import LocalTransport\n"
        "from toolchain.errors import ToolchainError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))\n"
        "try: LocalTransport(Path(sys.argv[1])).put(bytes(10_000), 'lib/x')\n"
        "except ToolchainError as error: print(error.message); sys.exit(error.exit_code)\n"
    )
    argv = [sys.executable, "-c", code, str(board.root)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "lib/x" in ended.stdout
    assert (board.root / "lib" / "x").read_bytes() == b"old"
    assert names(board.root / "lib") == ["x"]


def test_a_vanished_folder_is_said_by_every_method_and_not_made_again(
    board: LocalTransport, tmp_path: Path
) -> None:
    board.root.rmdir()
    for attempt in (
        lambda: board.run(["true"]),
        lambda: board.spawn(["true"]),
        lambda: board.put(b"x", "x"),
        lambda: board.get("x", tmp_path / "got"),
        lambda: board.listing("lib"),
    ):
        with pytest.raises(ToolchainError, match="is gone"):
            attempt()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("argv", "says"), [(["no-such-program"], "no such program"), (["bin/x"], "Permission denied")]
)
def test_a_program_that_cannot_start_is_named(board: LocalTransport, argv: list[str], says: str) -> None:
    board.put(b"not executable", "bin/x")
    for start in (board.run, board.spawn):
        with pytest.raises(ToolchainError, match=f"cannot start {argv[0]}.*{says}"):
            start(argv)


def test_a_missing_emulator_is_a_missing_thing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no-such-qemu"):
        LocalTransport(tmp_path, ("no-such-qemu",)).run(["bin/x"])


def test_missing_files_are_named(board: LocalTransport, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"no file 'out.npz'"):
        board.get("out.npz", tmp_path / "out.npz")
    with pytest.raises(UsageError, match=r"nothing.so: no such file"):
        board.put(tmp_path / "nothing.so", "lib/x")
    assert not (board.root / "lib" / "x").exists()


def test_two_writers_of_one_file_leave_one_of_the_two(board: LocalTransport) -> None:
    contents = [bytes([48 + i]) * 100_000 for i in range(4)]
    threads = [threading.Thread(target=board.put, args=(content, "lib/x")) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (board.root / "lib" / "x").read_bytes() in contents
    assert names(board.root / "lib") == ["x"]


def test_local_board_has_no_login(board: LocalTransport) -> None:
    assert not board.is_remote and board.has_system
    for asked in (lambda: board.ssh_command(), lambda: board.as_user("pi")):
        with pytest.raises(UsageError, match="of this host, without a login") as raised:
            asked()
        assert str(board.root) in raised.value.message
    board.close()
    assert board.run(["true"]).returncode == 0


def test_its_home_is_its_folder(board: LocalTransport) -> None:
    with board.at_home() as home:
        assert home.transport.run(["sh", "-c", 'cd "$1" && pwd', "sh", home.root]).stdout == (
            f"{board.root}\n".encode()
        )


def test_under_an_emulator_there_is_no_system(tmp_path: Path) -> None:
    assert not LocalTransport(tmp_path, ("env",)).has_system


@pytest.mark.slow
def test_a_program_that_is_still_held_open_starts_a_moment_later(tmp_path: Path) -> None:
    board = LocalTransport(tmp_path)
    board.put(Path("/bin/true"), "program", executable=True)
    held = (tmp_path / "program").open("ab")
    threading.Timer(0.3, held.close).start()
    assert board.run(["./program"]).returncode == 0

"""Emulated boards: they exist when they work, and leave nothing when they don't."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import filelock
import pytest

from toolchain.boards.edge_rt.install import install
from toolchain.boards.emulation import emulated, stored
from toolchain.boards.inventory.lookup import find_board
from toolchain.errors import ToolchainError, UsageError
from toolchain.runtime import ensure_runtime


def left(state: Path) -> list[str]:
    folder = state / "emulated"
    return sorted(p.name for p in folder.iterdir() if p.name != ".lock") if folder.exists() else []


@pytest.mark.slow
def test_a_board_starts_answers_and_stops(state: Path) -> None:
    board = emulated.start("rk3399", "process")
    assert board.name == "rk3399-emulated"
    facts = install(find_board("rk3399-emulated")).facts
    assert facts.machine == "aarch64"
    assert "asimd" in facts.cpu_features
    with pytest.raises(UsageError, match="rk3399-emulated already runs"):
        emulated.start("rk3399", "process")
    with pytest.raises(UsageError, match=r"already a board of that name, of class rk3399"):
        emulated.start("raspberrypi4", "process", name="rk3399-emulated")
    emulated.start("raspberrypi4", "process", name="pi")
    assert [b.name for b in emulated.list_emulated()] == ["pi", "rk3399-emulated"]
    emulated.stop("rk3399-emulated")
    emulated.stop("pi")
    assert left(state) == []


@pytest.mark.slow
def test_the_runtime_is_sent_once_and_a_damaged_one_is_replaced(state: Path) -> None:
    board = find_board("local")
    program = state / "boards" / "local" / install(board).program
    inode = program.stat().st_ino
    install(board)
    assert program.stat().st_ino == inode
    program.write_bytes(b"cut short")
    install(board)
    assert install(board).facts.glibc


@pytest.mark.slow
def test_a_board_that_is_not_of_its_class_is_refused_and_leaves_nothing(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards = tmp_path / "boards" / "newer"
    boards.mkdir(parents=True)
    (tmp_path / "toolchain.toml").write_text("")
    (boards / "board.toml").write_text(
        'description = "from the future"\ntriple = "aarch64-unknown-linux-gnu"\nglibc = "9.99"\n'
        'memory_mib = 1\n[[clusters]]\ncpu = "cortex-a72"\ncores = 1\n'
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolchainError, match=r"newer-emulated has glibc .*, its class newer says 9\.99"):
        emulated.start("newer", "process")
    assert left(state) == []


@pytest.mark.slow
def test_an_emulator_that_does_not_work_leaves_nothing(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu = tmp_path / "qemu"
    qemu.write_text("#!/bin/sh\necho 'qemu: unsupported host page size' >&2\nexit 255\n")
    qemu.chmod(0o755)
    monkeypatch.setenv("TOOLCHAIN_QEMU_AARCH64", str(qemu))
    with pytest.raises(ToolchainError, match=r"does not work there \(exit code 255\): qemu: unsupported"):
        emulated.start("rk3399", "process")
    assert left(state) == []


@pytest.mark.slow
def test_ctrl_c_while_starting_leaves_nothing(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu = tmp_path / "qemu"
    qemu.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    qemu.chmod(0o755)
    monkeypatch.setenv("TOOLCHAIN_QEMU_AARCH64", str(qemu))
    code = "from toolchain.boards.emulation import emulated; emulated.start('rk3399', 'process')"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as owner:
        deadline = time.monotonic() + 300  # it may have to compile the runtime
        while not (tmp_path / "pid").exists():
            assert owner.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        owner.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in owner.communicate(timeout=60)[1]
    assert left(state) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.slow
def test_of_two_that_start_the_same_board_one_gets_it(state: Path) -> None:
    code = (
        "import sys; from toolchain.boards.emulation import emulated\n"
        "from toolchain.errors import UsageError\n"
        "try: emulated.start('rk3399', 'process')\n"
        "except UsageError as error: print(error); sys.exit(2)\n"
    )
    starters = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = [starter.communicate(timeout=300)[0] for starter in starters]
    assert sorted(starter.returncode for starter in starters) == [0, 2, 2]
    assert sum("rk3399-emulated already runs" in words for words in said) == 2
    assert left(state) == ["rk3399-emulated"]
    assert install(find_board("rk3399-emulated")).facts.machine == "aarch64"


@pytest.mark.slow
def test_a_killed_start_leaves_a_board_that_works_or_none(state: Path) -> None:
    ensure_runtime("aarch64")
    code = (
        "from toolchain.boards.emulation import emulated; print('go', flush=True)\n"
        "emulated.start('rk3399', 'process')"
    )
    seen = set()
    for wait_s in (0.0, 0.02, 0.05, 0.1, 0.15, 0.3):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as starter:
            assert starter.stdout is not None
            starter.stdout.readline()
            time.sleep(wait_s)
            starter.kill()
        seen.add(len(stored.names()))
        for name in stored.names():
            assert install(find_board(name)).facts.machine == "aarch64"
            emulated.stop(name)
    assert seen <= {0, 1}
    emulated.start("rk3399", "process")
    assert left(state) == ["rk3399-emulated"], "the next one sweeps"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("rk3390",), "no board class 'rk3390'"),
        (("rk3399", "auto", "../x"), r"--name \.\./x"),
        (("rk3399", "auto", "local"), "--name local: taken by this host"),
        (("rk3399", "auto", "x86_64"), "--name x86_64: taken by a board class"),
    ],
)
def test_refuses_wrong_arguments(state: Path, arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        emulated.start(*arguments)
    assert left(state) == []


def test_an_unknown_board_cannot_be_stopped(state: Path) -> None:
    with pytest.raises(UsageError, match=r"no emulated board 'x'.*none"):
        emulated.stop("x")
    (state / "emulated" / "mine" / "root").mkdir(parents=True)
    for name in ("x", "..", ".lock", ""):
        with pytest.raises(UsageError, match="mine"):
            emulated.stop(name)


def test_a_board_in_use_is_not_stopped(state: Path) -> None:
    root = state / "emulated" / "mine" / "root"
    root.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"], cwd=root) as user:
        with pytest.raises(ToolchainError, match=rf"in use by sleep \(process {user.pid}\)"):
            emulated.stop("mine")
        user.kill()
    emulated.stop("mine")
    assert left(state) == []


def test_one_writer_at_a_time(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (state / "emulated" / "mine" / "root").mkdir(parents=True)
    monkeypatch.setattr(emulated, "_LOCK_SECONDS", 0.1)
    with (
        filelock.FileLock(state / "emulated" / ".lock"),
        pytest.raises(ToolchainError, match="another process has been changing"),
    ):
        emulated.stop("mine")


def test_leftovers_of_killed_start_are_removed(state: Path) -> None:
    (state / "emulated" / ".mine.abc" / "root").mkdir(parents=True)
    (state / "emulated" / "mine" / "root").mkdir(parents=True)
    assert stored.names() == ["mine"]
    emulated.stop("mine")
    assert left(state) == []

"""Files are whole or not there."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolchain.errors import ToolchainError
from toolchain.files import atomic


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_replaced_file_has_the_umasks_permissions(tmp_path: Path) -> None:
    file = tmp_path / "new" / "x"
    atomic.write_text(file, "one")
    atomic.write_text(file, "two")
    plain = tmp_path / "plain"
    plain.touch()
    assert file.read_text() == "two"
    assert file.stat().st_mode == plain.stat().st_mode
    assert names(file.parent) == ["x"]


def test_check_writable_leaves_no_trace(tmp_path: Path) -> None:
    atomic.check_writable(tmp_path / "new" / "and newer" / "x")
    assert names(tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(ToolchainError, match=r"cannot write .*file/new/x: Not a directory"):
        atomic.check_writable(tmp_path / "file" / "new" / "x")
    tmp_path.chmod(0o500)
    code = (
        "import os, sys; from pathlib import Path; from toolchain.files import atomic\n"
        "if not os.getuid(): os.setuid(65534)\n"
        "atomic.check_writable(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "new" / "x")], capture_output=True, text=True
    )
    assert "new/x: Permission denied" in done.stderr
    assert names(tmp_path) == ["file"]


def test_mode_of_a_program(tmp_path: Path) -> None:
    with atomic.replacing(tmp_path / "x", 0o777) as temporary:
        temporary.write_text("#!/bin/sh\n")
    assert os.access(tmp_path / "x", os.X_OK)


def test_interrupted_write_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    atomic.write_text(file, "old")
    with pytest.raises(KeyboardInterrupt), atomic.replacing(file) as temporary:
        temporary.write_text("ne")
        raise KeyboardInterrupt
    assert file.read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    atomic.write_text(file, "old")
    # A limit on the size of files gives a real error of write(2) in mid-file, for root as well.
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from toolchain.files import atomic\n"
        "from toolchain.errors import ToolchainError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))\n"
        "try: atomic.write_bytes(Path(sys.argv[1]), bytes(10_000))\n"
        "except ToolchainError as error: print(error); sys.exit(error.exit_code)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert f"cannot write {file}" in ended.stdout
    assert file.read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_foreign_folder_is_reported_as_such(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from toolchain.files import atomic\n"
        "from toolchain.errors import ToolchainError\n"
        "os.geteuid() or os.seteuid(65534)\n"  # root may write everywhere
        "try: atomic.write_text(Path(sys.argv[1]), 'x')\n"
        "except ToolchainError as error: print(error)\n"
    )
    for folder in (*tmp_path.parents[:2], tmp_path):
        folder.chmod(0o755)
    tmp_path.chmod(0o555)
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True, timeout=60
    )
    assert "Permission denied" in ended.stdout and "that you may write to" in ended.stdout, ended.stderr
    assert "space" not in ended.stdout


@pytest.mark.parametrize(
    ("number", "way_out"), [(errno.ENOSPC, "free some space"), (errno.EROFS, "can only be read")]
)
def test_hint_depends_on_the_error(number: int, way_out: str) -> None:
    error = atomic.cannot_write(Path("/x"), OSError(number, os.strerror(number)))
    assert os.strerror(number) in error.message and way_out in error.hint


@pytest.mark.parametrize("where", ["file/x", "."])
def test_impossible_path_is_named(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolchainError, match=r"cannot write .*nothing was left half-written") as raised:
        atomic.write_text(tmp_path / where, "x")
    assert str(tmp_path) in raised.value.message
    assert names(tmp_path) == ["file"]


@pytest.mark.slow
def test_killed_writer_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    atomic.write_bytes(file, b"0" * 200_000)
    code = (
        "import itertools, sys\n"
        "from pathlib import Path\n"
        "from toolchain.files import atomic\n"
        "for i in itertools.count(1):\n"
        "    atomic.write_bytes(Path(sys.argv[1]), bytes([48 + i % 10]) * 200_000)\n"
        "    print(i, flush=True)\n"
    )
    for wait_s in (0.0, 0.013, 0.031):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(wait_s)
            writer.send_signal(signal.SIGKILL)
        data = file.read_bytes()
        assert len(data) == 200_000
        assert len(set(data)) == 1


def test_replacing_folder_keeps_the_first(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with atomic.replacing_folder(tmp_path / "made") as folder:
            (folder / "sub").mkdir()
            (folder / "sub" / "x").write_text(text)
    assert (tmp_path / "made" / "sub" / "x").read_text() == "first"
    assert names(tmp_path) == ["made"]


def test_failed_folder_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic.replacing_folder(tmp_path / "made") as folder:
        (folder / "x").touch()
        raise RuntimeError
    assert names(tmp_path) == []

"""Folders for a moment: nothing is left in the machine's temporary folder, and a refusal is a sentence."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import toolchain
from tests.models.graphs import classifier
from toolchain.errors import MissingError, ToolchainError
from toolchain.files.scratch import scratch_folder

HOLDING = """
import time
from toolchain.files.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "sub").mkdir()
    (folder / "sub" / "file").touch()
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the temporary folder of this test and its children."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name != f"edge-toolchain-{os.geteuid()}"]


def test_package_makes_temporary_folders_here_only() -> None:
    """Others lie beside what they become (`dir=`), where their owners look for them."""
    package = Path(toolchain.__file__).parent
    ways = re.compile(r"tempfile\.\w+\((?!.*dir=)")
    calls = {path.name: ways.findall(path.read_text()) for path in package.rglob("*.py")}
    assert {name: ways for name, ways in calls.items() if ways} == {
        "scratch.py": ["tempfile.gettempdir("] * 2
    }


def test_scratch_folder_is_removed_even_after_an_error(temporary: Path) -> None:
    with pytest.raises(KeyError), scratch_folder() as folder:
        (folder / "file").write_text("x")
        assert folder.is_relative_to(temporary) and folder.stat().st_mode & 0o077 == 0
        raise KeyError
    assert files(temporary) == []


def test_folders_of_killed_processes_are_removed(temporary: Path, holder: subprocess.Popen[str]) -> None:
    assert holder.stdout
    other = Path(holder.stdout.readline().strip())
    with scratch_folder() as own_folder:
        assert (other / "sub" / "file").exists()
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
        with scratch_folder():
            assert own_folder.exists() and not other.exists()
    assert files(temporary) == []


def test_foreign_folder_of_that_name_is_left_alone(temporary: Path) -> None:
    foreign = temporary / f"edge-toolchain-{os.geteuid()}"
    foreign.write_text("not a folder")
    with scratch_folder() as folder:
        assert folder.parent == temporary
    assert files(temporary) == [] and foreign.read_text() == "not a folder"


def test_missing_temporary_folder_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])
    with (
        pytest.raises(MissingError, match="no temporary folder that can be written") as raised,
        scratch_folder(),
    ):
        pass
    assert "TMPDIR" in raised.value.hint


def test_full_temporary_folder_is_named(temporary: Path) -> None:
    with pytest.raises(ToolchainError, match=f"{temporary}.* No space left") as raised, scratch_folder():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "TMPDIR" in raised.value.hint
    with pytest.raises(OSError, match="No space"), scratch_folder():
        raise OSError(errno.ENOSPC, "No space left on device", "/elsewhere/file")


@pytest.mark.slow
def test_full_temporary_folder_does_not_abort_llvm(tmp_path: Path) -> None:
    onnx.save(classifier(), tmp_path / "small.onnx")
    small = tmp_path / "small"
    small.mkdir()
    script = f"""
mount -t tmpfs -o size=64k tmpfs {small} || exit 77
head -c 40000 /dev/zero > {small}/fill
TMPDIR={small} {sys.executable} -m toolchain build small.onnx --board local --layout NCHW -o out
"""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "TOOLCHAIN_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 1 and "LLVM" not in done.stderr
    assert f"the temporary folder {small}/edge-toolchain-{os.geteuid()} cannot be written" in done.stderr

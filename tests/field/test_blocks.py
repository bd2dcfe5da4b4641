"""A power cut on a real ext4: whatever the disk has lost, the old release or the new one is there, whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.field.blocks import build, logged, missing, mounted, new_disk, read_log, states
from tests.field.board import Board, new_board, problem
from tests.field.toy import NEW, OLD

pytestmark = pytest.mark.full
_ENDED = "ended"  # a file that is on the disk once the installation has said its end


@pytest.fixture
def folder() -> Iterator[Path]:
    lacks = missing()
    assert not lacks, f"a disk with a log of its blocks needs {lacks}, which this machine lacks"
    with TemporaryDirectory(dir="/dev/shm", prefix="blocks-") as made:
        yield Path(made)


def updated(folder: Path, **environment: str) -> tuple[Path, Path]:
    """Install the old release on a disk, then the new one with a log; return the image and the log."""
    base, log = folder / "base", folder / "log"
    new_disk(base)
    with mounted(base, folder / "at") as at:
        new_board(at, OLD)
        (at / "file.edge").unlink()
    release = folder / "new.edge"
    release.write_bytes(NEW.file())
    with logged(base, log, folder / "shown") as shown, mounted(shown, folder / "at") as at:
        board = replace(Board(at), environment=environment)
        code, said = board.call("install", str(release))
        assert code == 0, said
        (at / _ENDED).touch()
        for path in (at / _ENDED, at):
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
    return base, log


def broken(folder: Path, base: Path, log: Path, most: int = 1000) -> tuple[list[str], int]:
    """Return what is wrong with which state, the first ones, and how many states there were."""
    found: list[str] = []
    image = folder / "state"
    count = 0
    for name, writes in states(read_log(log)):
        count += 1
        build(base, writes, image)
        wrong = _wrong(image, folder / "at")
        if wrong:
            found.append(f"{name}: {wrong}")
            if len(found) == most:
                break
    return found, count


def _wrong(image: Path, at: Path) -> str:
    with mounted(image, at):
        board = Board(at)
        code, said = board.call("recover")
        if code != 0:
            return f"recover: {said}"
        problems = [problem(board, toy) for toy in ((NEW,) if (at / _ENDED).exists() else (OLD, NEW))]
        if all(problems):
            return str(problems)
        end = board.install(NEW)  # with its self-test
        if end["end"] not in {"installed", "unchanged"} and (end["cause"] or {}).get("code") == "resumed":
            end = board.install(NEW)
        return problem(board, NEW) if end["end"] in {"installed", "unchanged"} else f"installing again: {end}"


def test_a_cut_at_any_moment_leaves_the_old_release_or_the_new_one(folder: Path) -> None:
    base, log = updated(folder)
    found, count = broken(folder, base, log)
    print(f"{count} states of the disk")
    assert count > 50 and found == []


@pytest.mark.parametrize("sync", ["part"])
def test_without_an_fsync_something_is_lost(folder: Path, sync: str) -> None:
    base, log = updated(folder, FIELD_LEAVE_OUT=sync)
    assert broken(folder, base, log, most=1)[0], f"nobody would notice if the fsync {sync!r} were missing"


def test_nothing_stays_mounted_after_a_failure(folder: Path) -> None:
    new_disk(folder / "base")
    loops = Path("/sys/block").glob("loop*/loop/backing_file")
    with (
        pytest.raises(KeyboardInterrupt),
        logged(folder / "base", folder / "log", folder / "shown") as shown,
        mounted(shown, folder / "at"),
    ):
        raise KeyboardInterrupt
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert not [path for path in loops if str(folder) in path.read_text()]

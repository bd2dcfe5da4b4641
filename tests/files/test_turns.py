"""One process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import filelock
import pytest

from toolchain.errors import ToolchainError
from toolchain.files.turns import folder_turn, one_at_a_time


def test_second_process_is_told_once_and_times_out(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    messages: list[str] = []
    with (
        filelock.FileLock(file),
        pytest.raises(ToolchainError, match=r"another process has been making tea for 0\.1 s") as caught,
        one_at_a_time(file, 0.1, "making tea", lambda: messages.append("waiting")),
    ):
        raise AssertionError("it is not our turn")
    assert caught.value.hint and messages == ["waiting"]
    with one_at_a_time(file, 0.1, "making tea", lambda: messages.append("waiting")):
        pass
    assert messages == ["waiting"]


def test_exception_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="tea"), one_at_a_time(tmp_path / "new" / "lock", 1, "making tea"):
        raise TimeoutError("tea")
    with one_at_a_time(tmp_path / "new" / "lock", 0.1, "making tea"):
        pass


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ToolchainError, match=r"cannot write .*/file/lock"),
        one_at_a_time(tmp_path / "file" / "lock", 1, "making tea"),
    ):
        pass


def test_folder_turn_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with folder_turn(folder, 1, "making tea"):
        assert list(folder.iterdir()) == []
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with (
        pytest.raises(ToolchainError, match=r"another process has been making tea for 0\.1 s") as caught,
        folder_turn(folder, 0.1, "making tea"),
    ):
        raise AssertionError("it is not our turn")
    assert caught.value.hint
    os.close(other)
    with folder_turn(folder, 0.1, "making tea"):
        pass
    (tmp_path / "file").touch()
    with (
        pytest.raises(ToolchainError, match=r"cannot write .*/file"),
        folder_turn(tmp_path / "file", 1, "tea"),
    ):
        pass

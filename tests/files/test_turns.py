"""One process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import filelock
import pytest

from toolchain.errors import ToolchainError
from toolchain.files.turns import folder_turn, one_at_a_time


def test_who_comes_second_is_told_once_and_gives_up(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    told: list[str] = []
    with (
        filelock.FileLock(file),
        pytest.raises(ToolchainError, match=r"another process has been making tea for 0\.1 s") as caught,
        one_at_a_time(file, 0.1, "making tea", lambda: told.append("waiting")),
    ):
        raise AssertionError("it is not our turn")
    assert caught.value.hint and told == ["waiting"]
    with one_at_a_time(file, 0.1, "making tea", lambda: told.append("waiting")):
        pass
    assert told == ["waiting"]


def test_what_fails_in_a_turn_ends_it_and_comes_through(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="tea"), one_at_a_time(tmp_path / "new" / "lock", 1, "making tea"):
        raise TimeoutError("tea")
    with one_at_a_time(tmp_path / "new" / "lock", 0.1, "making tea"):
        pass


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ToolchainError, match=r"cannot write .*/file/lock"),
        one_at_a_time(tmp_path / "file" / "lock", 1, "making tea"),
    ):
        pass


def test_a_folder_has_turns_too_and_is_left_as_it_was(tmp_path: Path) -> None:
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

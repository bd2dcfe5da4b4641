"""What is on a board already is not sent again, and old things make room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolchain.boards.edge_rt.install import stock, surplus
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.transport import RemoteFile


def test_a_file_is_sent_once_and_again_when_its_size_is_wrong(tmp_path: Path) -> None:
    board = LocalTransport(tmp_path)
    assert stock(board, "lib/a.so", b"12345", keep=3) == "lib/a.so"
    inode = (tmp_path / "lib" / "a.so").stat().st_ino
    stock(board, "lib/a.so", b"12345", keep=3)
    assert (tmp_path / "lib" / "a.so").stat().st_ino == inode
    (tmp_path / "lib" / "a.so").write_bytes(b"12")
    stock(board, "lib/a.so", b"12345", keep=3)
    assert (tmp_path / "lib" / "a.so").read_bytes() == b"12345"


def test_a_program_comes_from_a_file_and_is_executable(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "root").mkdir()
    stock(LocalTransport(tmp_path / "root"), "bin/x", tmp_path / "source", keep=1, executable=True)
    assert os.access(tmp_path / "root" / "bin" / "x", os.X_OK)


def test_the_least_recently_used_make_room_and_the_new_one_stays(tmp_path: Path) -> None:
    board = LocalTransport(tmp_path)
    for age, name in enumerate("abcde"):
        stock(board, f"lib/{name}", name.encode(), keep=5)
        os.utime(tmp_path / "lib" / name, (1000 + age, 1000 + age))
    stock(board, "lib/a", b"a", keep=3)  # used again: now the newest
    assert sorted(board.listing("lib")) == ["a", "d", "e"]
    stock(board, "lib/f", b"f", keep=3)
    assert sorted(board.listing("lib")) == ["a", "e", "f"]
    stock(board, "lib/f", b"f", keep=1)
    assert sorted(board.listing("lib")) == ["f"]


@pytest.mark.slow
def test_old_files_are_removed_gradually_oldest_first() -> None:
    there = {str(number): RemoteFile(1, float(number)) for number in range(100_000)}
    old = surplus(there, "new", 3)
    assert sorted(map(int, old)) == list(range(100)), "a board that claims so keeps nobody busy"

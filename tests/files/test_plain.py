"""Files of others: plain ones are read, what would block, never end or fill the memory is refused."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from toolchain.files.plain import HOLES, open_plain, read_plain


def refusal(path: Path) -> OSError:
    with pytest.raises(OSError) as caught:
        read_plain(path)
    return caught.value


@pytest.mark.parametrize("content", [b"", b"\0", b"text\r\n\xff" * 1000])
def test_reads_files_and_links(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "file") == read_plain(tmp_path / "link") == content


def test_links_can_be_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with open_plain(tmp_path / "file", links=False) as file:
        assert file.read() == b"x"
    with pytest.raises(OSError, match="it is a link, not a plain file"):
        open_plain(tmp_path / "link", links=False)


def test_refuses_special_files_by_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
        paths = {"folder": tmp_path, "pipe": tmp_path / "pipe", "device": Path("/dev/zero")}
        for kind, path in paths.items():
            error = refusal(path)
            assert (error.errno, error.strerror) == (errno.EINVAL, f"it is a {kind}, not a plain file")
            assert error.filename == str(path)
        assert isinstance(refusal(tmp_path / "socket"), OSError)  # the kernel opens none


def test_missing_files_and_invalid_names(tmp_path: Path) -> None:
    assert isinstance(refusal(tmp_path / "gone"), FileNotFoundError)
    assert refusal(Path("a\0b")).strerror == "no file has such a name"
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path / "loop").errno == errno.ELOOP


def sparse(path: Path, size: int, stored: int = 0) -> Path:
    """Write a file of `size` bytes of which the last `stored` are data."""
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size - stored)
        file.write(b"\1" * stored)
    return path


def test_refuses_mostly_sparse_files(tmp_path: Path) -> None:
    error = refusal(sparse(tmp_path / "large", 1 << 40, stored=4096))
    assert error.errno == errno.EFBIG
    assert error.strerror == f"4096 bytes are stored of its {1 << 40}, the rest is holes"


@pytest.mark.parametrize("stored", [0, 4096])
def test_accepts_a_few_holes(tmp_path: Path, stored: int) -> None:
    """Tools that copy leave out runs of zeros."""
    with open_plain(sparse(tmp_path / "file", HOLES, stored)) as file:
        assert file.read(1) == b"\0"
        file.seek(-1, os.SEEK_END)
        assert file.read() == (b"\1" if stored else b"\0")


def test_sparse_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = sparse(tmp_path / "file", HOLES + 8192, stored=4096)
    with path.open("r+b") as file:
        file.write(b"begin")
    with open_plain(path) as file:
        assert file.read(5) == b"begin"


def test_refusal_closes_the_file(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in (tmp_path, Path("/dev/null"), sparse(tmp_path / "large", 1 << 40)):
        refusal(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before

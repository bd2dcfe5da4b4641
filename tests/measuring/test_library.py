"""Objects of a bundle are read from a tar that nobody vouches for."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from toolchain.bundles import Bundle
from toolchain.errors import UsageError
from toolchain.measuring.place import library_for
from toolchain.profiles import load_profile


def archive(member: tarfile.TarInfo, content: bytes = b"") -> bytes:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
            tar.addfile(member, io.BytesIO(content))
        return file.getvalue()


def sparse() -> bytes:
    """Return an archive of one member that claims a TiB, and stores a block."""
    member = tarfile.TarInfo("model.o")
    member.size = 512
    written = bytearray(archive(member, bytes(512)))
    written[156:157] = tarfile.GNUTYPE_SPARSE
    written[386:410] = b"%011o\0%011o\0" % (0, 512)
    written[483:495] = b"\x80" + (2**40).to_bytes(11, "big")
    header = bytearray(written[:512])
    header[148:156] = b" " * 8
    written[148:156] = b"%06o\0 " % sum(header)
    return bytes(written)


def linked() -> bytes:
    member = tarfile.TarInfo("model.o")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return archive(member)


@pytest.mark.parametrize(
    ("library", "message"),
    [
        (sparse(), r"contains 'model\.o', which is not a plain file"),
        (linked(), r"contains 'model\.o', which is not a plain file"),
        (bytes(1024), r"library\.tar is empty"),
        (b"no tar" * 200, r"library\.tar cannot be read"),
    ],
    ids=["sparse", "a link", "empty", "no archive"],
)
def test_a_hostile_archive_is_refused(library: bytes, message: str) -> None:
    bundle = SimpleNamespace(path=Path("a.bundle"), manifest=SimpleNamespace(format="tar"), library=library)
    with pytest.raises(UsageError, match=message):
        library_for(cast(Bundle, bundle), load_profile("rk3399"))

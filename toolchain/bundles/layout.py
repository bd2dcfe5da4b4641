"""The canonical layout of a bundle: a USTAR file whose headers, order and padding are fully determined.

They follow from the members' names and sizes alone. So a reader needs no tar parser: it knows every byte
outside the members and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BLOCK = 512
RECORD = 20 * BLOCK  # tar's blocking factor: the file's size is a multiple of it
MANIFEST = "manifest.json"
MANIFEST_SHA256 = "manifest.sha256"

# A manifest grows by about 200 bytes for each task; networks have tens to hundreds.
MAX_MANIFEST = 4 * 2**20
# Position-independent code addresses 2 GiB on both architectures; boards have 1 to 4 GiB of memory.
MAX_LIBRARY = 2 * 2**30
# 16 float32 frames of 4096 x 4096 pixels with one channel.
MAX_TENSOR = 2**30
MAX_TENSORS = 256  # inputs and outputs together
# A reader holds the whole bundle in memory.
MAX_TOTAL = 4 * 2**30


def header(name: str, size: int) -> bytes:
    """Return the header of a regular file in POSIX.1-1988 ustar form: mode 0644, owner 0, date 0."""
    fields = (
        name.encode("ascii").ljust(100, b"\0"),
        b"0000644\0",
        b"0000000\0",
        b"0000000\0",
        b"%011o\0" % size,
        b"00000000000\0",
        b" " * 8,
        b"0".ljust(101, b"\0"),
        b"ustar\x0000",
        bytes(64),  # names of user and group
        bytes(8 + 8 + 155 + 12),  # device numbers, prefix of the name
    )
    block = b"".join(fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padding(size: int, unit: int = BLOCK) -> bytes:
    """Return the zeros that pad `size` bytes to a multiple of `unit`."""
    return bytes(-size % unit)


@dataclass(frozen=True)
class Found:
    """The facts of an unexpected tar header that a message needs."""

    path: str
    size: int | None
    regular: bool

    @property
    def hostile(self) -> bool:
        """Whether no benign archive has such a member."""
        outside = self.path.startswith("/") or ".." in self.path.split("/")
        return outside or not self.regular or self.size is None or self.size > MAX_TOTAL

    def __str__(self) -> str:
        outside = self.path.startswith("/") or ".." in self.path.split("/")
        notes = ["a path outside"] * outside + ["not a regular file"] * (not self.regular)
        notes.append(f"{self.size} bytes" if self.size is not None else "no valid size")
        return f"{self.path!r} ({', '.join(notes)})"


def parse_header(block: bytes) -> Found | None:
    """Parse a tar header; return None if its checksum is wrong.

    The result is used in messages only.
    """
    plain = block[:148] + b" " * 8 + block[156:]
    if len(block) != BLOCK or _octal(block[148:156]) != sum(plain):
        return None
    parts = [block[345:500], block[:100]] if block[257:262] == b"ustar" else [block[:100]]
    names = [part.split(b"\0")[0].decode("ascii", "backslashreplace") for part in parts]
    return Found("/".join(filter(None, names)), _octal(block[124:136]), block[156:157] in (b"0", b"\0"))


def _octal(field: bytes) -> int | None:
    digits = field.strip(b"\0 ")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else None


def sum_line(digest: str) -> bytes:
    """Return the content of `manifest.sha256`, in the format of `sha256sum -c`."""
    return f"{digest}  {MANIFEST}\n".encode("ascii")


def limit_problem(sizes: Mapping[str, int]) -> str | None:
    """Return a sentence about the limit that members of these sizes exceed, None if they keep all limits."""
    for name, size in sizes.items():
        limit = {MANIFEST: MAX_MANIFEST}.get(name, MAX_TENSOR if name.endswith(".npy") else MAX_LIBRARY)
        if size > limit:
            return f"{name} has {size} bytes, more than the {limit} allowed"
    tensors = sum(name.endswith(".npy") for name in sizes)
    if tensors > MAX_TENSORS:
        return f"it has {tensors} inputs and outputs, more than the {MAX_TENSORS} allowed"
    total = sum(sizes.values())
    return f"its members have {total} bytes, more than the {MAX_TOTAL} allowed" if total > MAX_TOTAL else None

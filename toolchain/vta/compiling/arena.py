"""Plans the memory of a program, one contiguous range of addresses, before instructions are emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolchain.errors import ToolchainError
from toolchain.vta.design.config import MOST_BYTES, PAGE_BYTES


class ArenaError(ToolchainError):
    """A program needs more contiguous memory than a driver allocates."""


_LINE = 64  # alignment of activations: a cache line of the host


@dataclass(frozen=True)
class Lifetime:
    """The size of a value, and the steps during which it is alive.

    Attributes
    ----------
    size
        Size in bytes.
    first, last
        The step that writes it, and the last one that reads it.
    """

    size: int
    first: int
    last: int


def plan(lives: Mapping[str, Lifetime]) -> tuple[dict[str, int], int]:
    """Assign memory so that values alive at the same time do not overlap; return offsets and the total size.

    The largest values are placed first, each at the lowest free offset. All numbers are bytes.
    """
    placed: dict[str, int] = {}
    for name, life in sorted(lives.items(), key=lambda item: (-item[1].size, item[1].first, item[0])):
        beside = sorted(
            (offset, offset + aligned(lives[other].size, _LINE))
            for other, offset in placed.items()
            if lives[other].first <= life.last and life.first <= lives[other].last
        )
        at = 0
        for low, high in beside:
            if at + life.size <= low:
                break
            at = max(at, high)
        placed[name] = at
    return placed, max((offset + lives[name].size for name, offset in placed.items()), default=0)


def aligned(value: int, to: int) -> int:
    """Round up to a multiple of `to`."""
    return -(-value // to) * to


def sections(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Return the offsets of consecutive sections, and their total size, in bytes.

    Each section begins at a page boundary, which is a multiple of every buffer's element size.

    Raises
    ------
    ArenaError
        The total is larger than a driver can allocate.
    """
    at, begins = 0, {}
    for name, size in sizes.items():
        begins[name] = at
        at += aligned(size, PAGE_BYTES)
    if at > MOST_BYTES:
        raise ArenaError(_too_large(at, list(sizes.items())), _WAY_OUT)
    return begins, at


_WAY_OUT = (
    "cut the region: end it earlier with --stop-pack, or begin it later with --start-pack; "
    "a single convolution that is too large must run on the CPU"
)


def _too_large(total: int, sizes: Sequence[tuple[str, int]]) -> str:
    parts = ", ".join(f"{size / 2**20:.1f} MiB {name}" for name, size in sizes)
    return (
        f"the program needs {total / 2**20:.1f} MiB of contiguous memory ({parts}); the driver allocates "
        f"at most {MOST_BYTES // 2**20} MiB"
    )

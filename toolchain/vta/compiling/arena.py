"""The memory that a program computes in: one run of addresses, planned before anything is emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolchain.errors import ToolchainError
from toolchain.vta.design.config import MOST_BYTES, PAGE_BYTES

_LINE = 64  # activations begin at lines of the host's caches


@dataclass(frozen=True)
class Life:
    """How long a value is needed.

    Attributes
    ----------
    size
        In bytes.
    first, last
        The steps that write and read it, and all between them.
    """

    size: int
    first: int
    last: int


def plan(lives: Mapping[str, Life]) -> tuple[dict[str, int], int]:
    """Return where values lie, and how long all of it is: two that live at the same time lie apart.

    Large ones choose first, each the lowest place that is free.
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
    """Return the next multiple."""
    return -(-value // to) * to


def sections(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Return where sections of these sizes begin, in their order, and the arena's size.

    Each begins a page: every buffer's elements are counted from there.

    Raises
    ------
    ToolchainError
        It is larger than what a driver gives.
    """
    at, begins = 0, {}
    for name, size in sizes.items():
        begins[name] = at
        at += aligned(size, PAGE_BYTES)
    if at > MOST_BYTES:
        raise ToolchainError(_too_large(at, list(sizes.items())), _WAY_OUT)
    return begins, at


_WAY_OUT = (
    "cut the region: end it earlier with --stop-pack, or begin it later with --start-pack; "
    "a convolution that is too large alone is one for a CPU"
)


def _too_large(total: int, sizes: Sequence[tuple[str, int]]) -> str:
    parts = ", ".join(f"{size / 2**20:.1f} MiB {name}" for name, size in sizes)
    return (
        f"the program needs {total / 2**20:.1f} MiB of memory in one piece ({parts}); the driver gives "
        f"{MOST_BYTES // 2**20} MiB"
    )

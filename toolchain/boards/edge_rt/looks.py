"""The part of `board status` that belongs to kinds of devices: what to read on a board, what to advise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from toolchain.boards.edge_rt.answers import State
from toolchain.boards.edge_rt.gpu import SCRIPT, gpu_hints
from toolchain.devices.by_kind import KindTable
from toolchain.devices.table import OWN, kind_of


@dataclass(frozen=True)
class Look:
    """A look at a board whose class has a device of one kind.

    Attributes
    ----------
    script
        POSIX shell commands that only read, and report with `say KEY VALUE`.
    hints
        Returns advice, given the board's name, the values read there, and the answers of its drivers
        (one entry for each kind of device).
    keys
        Keys that the script reports and `State` has no field for; their values are in `State.others`.
    """

    script: str
    hints: Callable[[str, State, list[dict[str, Any]]], list[str]]
    keys: tuple[str, ...] = ()


LOOKS: KindTable[Look] = KindTable("status", {"opencl": Look(f"{SCRIPT}\ngpus", gpu_hints)})


def looks_of(kinds: Iterable[str]) -> list[Look]:
    """Return the looks for these kinds of devices, without repetition."""
    return [look for kind in dict.fromkeys(kinds) if (look := LOOKS.find(kind)) is not None]


def nodes_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return shell patterns of the device files to list: of our own kinds, and of these kinds."""
    rows = [*OWN.values(), *(kind_of(kind) for kind in kinds)]
    return tuple(dict.fromkeys(node for row in rows for node in row.nodes))

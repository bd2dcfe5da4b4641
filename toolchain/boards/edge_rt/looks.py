"""What `board status` looks at for kinds of devices, and what it advises."""

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
    """A look at a board whose class has a device of a kind.

    Attributes
    ----------
    script
        Plain POSIX commands that only read, and report by `say KEY VALUE`.
    hints
        Returns advice from the board's name, what it said, and what its drivers say, an entry for each kind.
    keys
        Those of the script that `State` has no field for; it has their values in `others`.
    """

    script: str
    hints: Callable[[str, State, list[dict[str, Any]]], list[str]]
    keys: tuple[str, ...] = ()


LOOKS: KindTable[Look] = KindTable("status", {"opencl": Look(f"{SCRIPT}\ngpus", gpu_hints)})

_OTHER_NODES = ("/dev/nvidia0", "/dev/nvhost-gpu")  # of no kind yet


def looks_of(kinds: Iterable[str]) -> list[Look]:
    """Return the looks for the kinds of devices of a class, each once."""
    return [look for kind in dict.fromkeys(kinds) if (look := LOOKS.find(kind)) is not None]


def nodes_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the device files to list, as patterns of the shell: of our own kinds, and of a class's."""
    rows = [*OWN.values(), *(kind_of(kind) for kind in kinds)]
    return tuple(dict.fromkeys(node for row in rows for node in row.nodes)) + _OTHER_NODES

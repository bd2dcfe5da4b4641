"""What a record is a record of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

EMULATED = "+emulated"
# Each level runs everything that the ones before it run.
_LEVELS = (("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"), ("neon",))
# Attributes that name a function or repeat what its body says; passes add and drop them.
_LABELS = ("global_symbol", "op_pattern", "tirx.noalias", "s_tir")


@dataclass(frozen=True)
class RecordKey:
    """Where a measurement holds.

    Parameters
    ----------
    workload
        `workload_hash` of the fused function, before any choice of algorithm or schedule.
    triple, cpu
        LLVM's names of both.
    level
        Feature level of the code: `x86-64-v3`, `neon`, with `+feature` for each one used beyond.
    threads
        How many threads ran it.
    board_class
        `<class>` or `<class>+emulated`.
    """

    workload: str
    triple: str
    cpu: str
    level: str
    threads: int
    board_class: str

    @property
    def emulated(self) -> bool:
        """Whether an emulator measured: its ranking says nothing about silicon."""
        return self.board_class.endswith(EMULATED)


def level_rank(level: str, of: str) -> tuple[int, int] | None:
    """Say how near below `of` a feature level is; None where its code needs more or is foreign.

    Returns
    -------
    tuple
        Larger is nearer; equal levels have the largest rank.
    """
    base, *features = level.split("+")
    wanted_base, *wanted_features = of.split("+")
    ladder = next((ladder for ladder in _LEVELS if base in ladder), (base,))
    if wanted_base not in ladder or ladder.index(base) > ladder.index(wanted_base):
        return None
    if not set(features) <= set(wanted_features):
        return None
    return ladder.index(base), len(features)


def unlabelled(func: PrimFunc) -> PrimFunc:
    """Return the function without attributes that only name it."""
    for label in _LABELS:
        func = func.without_attr(label)
    return func


def workload_hash(func: PrimFunc) -> str:
    """Return 16 hexadecimal digits that are the same for the same computation in every process.

    Names of functions, buffers, variables and blocks do not count.
    """
    import tvm_ffi

    return f"{tvm_ffi.structural_hash(unlabelled(func)) & (2**64 - 1):016x}"


def same_workload(a: PrimFunc, b: PrimFunc) -> bool:
    """Whether two functions compute the same, names apart: what equal hashes promise."""
    import tvm_ffi

    return bool(tvm_ffi.structural_equal(unlabelled(a), unlabelled(b)))

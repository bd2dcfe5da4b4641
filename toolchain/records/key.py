"""What a record is a record of."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.architectures.table import LINUX

EMULATED = "+emulated"
_LADDERS = [[level.name for level in row.levels] for row in LINUX.values()]


@dataclass(frozen=True)
class RecordKey:
    """Where a measurement holds.

    Parameters
    ----------
    workload
        Hash of what is computed, before any choice of algorithm or schedule; the same in every process.
    triple, cpu
        LLVM's names of both.
    level
        Feature level of the code: `x86-64-v3`, `neon`, with `+feature` for each one used beyond.
    threads
        How many threads ran it.
    board_class
        `<class>` or `<class>+emulated`.
    device
        What computed, where it was not a CPU: `opencl:<name>`, `cuda:sm_87`, `vta:<configuration>`.
        A device never answers for another.
    """

    workload: str
    triple: str
    cpu: str
    level: str
    threads: int
    board_class: str
    device: str = ""

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
    ladder = next((ladder for ladder in _LADDERS if base in ladder), [base])
    if wanted_base not in ladder or ladder.index(base) > ladder.index(wanted_base):
        return None
    if not set(features) <= set(wanted_features):
        return None
    return ladder.index(base), len(features)

"""The key of a record: the task, the code's target and the board class."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.architectures.table import LINUX

EMULATED = "+emulated"
_LADDERS = [[level.name for level in row.levels] for row in LINUX.values()]


@dataclass(frozen=True)
class RecordKey:
    """The conditions under which a measurement is valid.

    Parameters
    ----------
    workload
        Hash of what is computed, independent of algorithm and schedule; stable across processes.
    triple, cpu
        LLVM's names of the target triple and the CPU.
    level
        Feature level of the code, such as `x86-64-v3` or `neon`, with `+feature` for each further feature.
    threads
        Number of threads that ran it.
    board_class
        `<class>` or `<class>+emulated`.
    device
        The accelerator that computed: `opencl:<name>`, `cuda:sm_87`, `vta:<configuration>`; empty: the CPU.
        A record of one device is never used for another.
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
        """Whether the board was emulated: rankings of an emulator do not hold for real hardware."""
        return self.board_class.endswith(EMULATED)


def level_rank(level: str, of: str) -> tuple[int, int] | None:
    """Rank how close feature level `level` is to `of`; None if its code needs more or another architecture.

    Returns
    -------
    tuple
        Larger is closer; equal levels have the largest rank.
    """
    base, *features = level.split("+")
    wanted_base, *wanted_features = of.split("+")
    ladder = next((ladder for ladder in _LADDERS if base in ladder), [base])
    if wanted_base not in ladder or ladder.index(base) > ladder.index(wanted_base):
        return None
    if not set(features) <= set(wanted_features):
        return None
    return ladder.index(base), len(features)

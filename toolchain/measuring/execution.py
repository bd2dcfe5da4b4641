"""How a bundle is executed, on which board, and how it is timed: what goes from a command to edge-rt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.errors import UsageError

if TYPE_CHECKING:
    from toolchain.boards.board import Board

BUDGET_S = 10.0  # the default of --time
_MOST_SAMPLES = 10_000  # within the budget; networks of 1 ms reach it


@dataclass(frozen=True)
class Execution:
    """How a board computes a bundle.

    Attributes
    ----------
    device
        `KIND`, `KIND:NUMBER` or `KIND:NAME`, such as `cuda:1` or `vta:sim`; None: the device that the bundle
        was built for if the board has it, else the first of its kind that is no simulation.
    threads
        Number of threads; None: one for each core of the cluster. On this host (`local`), whose logical cores
        may share a physical one: one for each physical core.
    cluster
        CPU type that names one of the board's clusters of cores (`cortex-a72`); None: the cluster that the
        bundle was built for.
    spin_us
        Microseconds that an idle thread spins before it sleeps; None: edge-rt's default.
    graph
        False: the device begins the network's kernels one by one, where it would begin them as one graph.
    """

    device: str | None = None
    threads: int | None = None
    cluster: str | None = None
    spin_us: int | None = None
    graph: bool = True


AS_BUILT = Execution()
"""The execution that a bundle was built for."""


@dataclass(frozen=True)
class OnBoard:
    """The board that executes a bundle, and how long the caller waits for it.

    Attributes
    ----------
    timeout
        Seconds until the execution is killed; None: computed from the network's FLOPs and the board.
    wait
        Seconds to wait for a board on which others measure; None: a busy board is an error.
    progress
        Called with a message while edge-rt is compiled for the board, which takes minutes the first time.
    """

    board: Board
    timeout: float | None = None
    wait: float | None = None
    progress: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Sampling:
    """How the latency of a network is sampled.

    Attributes
    ----------
    number, min_repeat_ms
        A sample is the mean of at least `number` inferences that take at least `min_repeat_ms` in total.
    repeat, time_s
        Sampling ends after `repeat` samples or `time_s` seconds, warm-up included; after 10 s if both are
        None. At least one sample is taken.
    profile
        Whether to time each operator, too.
    warmup
        Number of warm-up inferences; None: 3, on an emulated board 1.

    Raises
    ------
    UsageError
        A value is too small.
    """

    number: int = 1
    repeat: int | None = None
    min_repeat_ms: int = 0
    time_s: float | None = None
    profile: bool = False
    warmup: int | None = None

    def __post_init__(self) -> None:
        for option, value, least in (
            ("--number", self.number, 1),
            ("--repeat", self.repeat, 1),
            ("--min-repeat-ms", self.min_repeat_ms, 0),
            ("--time", self.time_s, 0),
        ):
            if value is not None and not value >= least:
                raise UsageError(f"{option} {value:g}: too small", f"give {least} or more")

    @property
    def budget_s(self) -> float | None:
        """Seconds for all samples; None: the number of samples is the only limit."""
        return BUDGET_S if self.time_s is None and self.repeat is None else self.time_s

    @property
    def most_samples(self) -> int:
        """Largest number of samples."""
        return _MOST_SAMPLES if self.repeat is None else self.repeat

    def warmups(self, board: Board) -> int:
        """Return the number of warm-up inferences on a board."""
        if self.warmup is None:
            return 1 if board.emulated else 3
        return self.warmup


DEFAULT_SAMPLING = Sampling()
"""Ten seconds of single inferences."""

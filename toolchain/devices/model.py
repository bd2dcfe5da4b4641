"""Models of devices: how long a kernel would take there, said without a board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from toolchain.devices.kernel import Kernel


class Judgement(Protocol):
    """What a model says of a kernel; nothing of it was measured.

    Attributes
    ----------
    ms
        Milliseconds of a launch; None where the model cannot say, and `problem` tells why.
    """

    @property
    def ms(self) -> float | None: ...

    @property
    def problem(self) -> str: ...

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""

    def cells(self) -> Sequence[str]:
        """Return it for a table, under the model's columns."""


class Asked(Protocol):
    """A model at work."""

    def ask(self, kernels: Iterable[Kernel]) -> Sequence[Judgement]:
        """Return what the model says of kernels, in their order.

        Raises
        ------
        MissingError
            What it needs is not here.
        ToolchainError
            It fails.
        """


@dataclass(frozen=True)
class KernelModel:
    """A model of a device.

    Attributes
    ----------
    name
        Of the runner that asks it, and of what stands for a board in its records.
    device
        What it is a model of, such as `opencl:mali-t860`.
    open
        Starts it; it ends with the block.
    trial_s
        Seconds that it takes for a candidate, about.
    columns
        Of a table of what it says.
    note
        What to know of all that it says.
    unjudged
        Types of numbers that it cannot judge -> why.
    half_note
        What to know where kernels name float16; empty: nothing.
    """

    name: str
    device: str
    open: Callable[[], AbstractContextManager[Asked]]
    trial_s: float
    columns: tuple[str, ...]
    note: str
    unjudged: dict[str, str]
    half_note: str = ""

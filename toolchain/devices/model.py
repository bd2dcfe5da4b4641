"""Models of devices, which predict the time of a kernel without a board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from toolchain.devices.kernel import Kernel


class Prediction(Protocol):
    """The prediction of a model for one kernel.

    Attributes
    ----------
    ms
        Milliseconds of a launch; None if the model cannot predict it, then `problem` has the reason.
    """

    @property
    def ms(self) -> float | None: ...

    @property
    def problem(self) -> str: ...

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as a JSON object."""

    def cells(self) -> Sequence[str]:
        """Return the cells of a table, one for each of the model's columns."""


class OpenModel(Protocol):
    """A started model, which answers for kernels."""

    def ask(self, kernels: Iterable[Kernel]) -> Sequence[Prediction]:
        """Return a prediction for each kernel, in the same order.

        Raises
        ------
        MissingError
            The model needs something that this machine lacks.
        ToolchainError
            The model fails.
        """


@dataclass(frozen=True)
class KernelModel:
    """A model of a device.

    Attributes
    ----------
    name
        Name of the runner that uses it; its records name it in place of a board.
    device
        Device that it models, such as `opencl:mali-t860`.
    open
        Starts the model; leaving the context ends it.
    trial_s
        Seconds for one candidate, approximately.
    columns
        Headings of the columns for `Prediction.cells`.
    note
        Caveat about all of its predictions, for users.
    unjudged
        Number types that it cannot predict, each with the reason.
    half_note
        Caveat about kernels that use float16; empty for none.
    """

    name: str
    device: str
    open: Callable[[], AbstractContextManager[OpenModel]]
    trial_s: float
    columns: tuple[str, ...]
    note: str
    unjudged: dict[str, str]
    half_note: str = ""

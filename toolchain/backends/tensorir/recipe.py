"""What scheduled functions are made from: the function as it was, and what to do to it."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tirx

from toolchain.backends.tensorir.traces import schedule_from
from toolchain.lowering.kernels.recipe import Recipe
from toolchain.lowering.schedules.gpu_defaults import device_schedule
from toolchain.lowering.schedules.rows import default_schedule


@dataclass(frozen=True)
class ByRows:
    """A function in the schedule that a build for a CPU takes without records."""

    func: tirx.PrimFunc

    @property
    def arity(self) -> int:
        """How many parameters the function has."""
        return len(self.func.params)

    def function(self) -> tirx.PrimFunc:
        """Return it, scheduled."""
        return default_schedule(self.func)


@dataclass(frozen=True)
class OnThreads:
    """A function in the schedule that a build for a device takes without records.

    Attributes
    ----------
    target
        The device with its limits and its host, as its own text.
    """

    func: tirx.PrimFunc
    target: str

    @property
    def arity(self) -> int:
        """How many parameters the function has."""
        return len(self.func.params)

    def function(self) -> tirx.PrimFunc:
        """Return it, scheduled."""
        return device_schedule(self.func, tvm.target.Target(self.target))


def unrecorded(func: tirx.PrimFunc, target: tvm.target.Target) -> Recipe:
    """Return a function in the schedule that a build takes without records."""
    return ByRows(func) if target.host is None else OnThreads(func, str(target))


@dataclass(frozen=True)
class Traced:
    """A function as a trace schedules it.

    Attributes
    ----------
    payload
        Of an entry.
    definition
        The function that the trace was written for.
    func
        The function that is scheduled: one with the same hash.
    """

    payload: str
    definition: str
    func: tirx.PrimFunc

    @property
    def arity(self) -> int:
        """How many parameters the function has."""
        return len(self.func.params)

    def function(self) -> tirx.PrimFunc:
        """Return it, scheduled.

        Raises
        ------
        ToolchainError
            The trace does not apply.
        """
        return schedule_from(self.payload, self.definition, self.func)

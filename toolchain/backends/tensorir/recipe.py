"""Recipes of scheduled functions: the function before scheduling, and the schedule."""

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
    """A function with the default schedule for CPUs, which builds use without records."""

    func: tirx.PrimFunc

    @property
    def arity(self) -> int:
        """Number of parameters of the function."""
        return len(self.func.params)

    def function(self) -> tirx.PrimFunc:
        """Return the scheduled function."""
        return default_schedule(self.func)


@dataclass(frozen=True)
class OnThreads:
    """A function with the default schedule for devices, which builds use without records.

    Attributes
    ----------
    target
        Target of the device with its limits and host, in TVM's text form.
    """

    func: tirx.PrimFunc
    target: str

    @property
    def arity(self) -> int:
        """Number of parameters of the function."""
        return len(self.func.params)

    def function(self) -> tirx.PrimFunc:
        """Return the scheduled function."""
        return device_schedule(self.func, tvm.target.Target(self.target))


def unrecorded(func: tirx.PrimFunc, target: tvm.target.Target) -> Recipe:
    """Return a function with the default schedule, which builds use without records."""
    return ByRows(func) if target.host is None else OnThreads(func, str(target))


@dataclass(frozen=True)
class Traced:
    """A function with the schedule of a trace.

    Attributes
    ----------
    payload
        Payload of the record's entry.
    definition
        Definition of the function for which the trace was measured.
    func
        Function to schedule, with the same workload hash.
    """

    payload: str
    definition: str
    func: tirx.PrimFunc

    @property
    def arity(self) -> int:
        """Number of parameters of the function."""
        return len(self.func.params)

    def function(self) -> tirx.PrimFunc:
        """Return the scheduled function.

        Raises
        ------
        ToolchainError
            The trace does not apply.
        """
        return schedule_from(self.payload, self.definition, self.func)

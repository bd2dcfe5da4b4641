"""Computes a task's definition on this host: the reference for all candidates.

The function is compiled without our schedules and generators. Only the loops of reductions are reordered, by
TVM's `reorder`: with the last axis of the output innermost, LLVM vectorises, and a convolution of 3.7 GFLOP
takes 2 s instead of 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import tvm
from tvm import s_tir, tirx

from toolchain.arrays import Array
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.host import host_profile
from toolchain.lowering.functions.definition import MAIN, function_of, module_of
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.targets.target import target_for
from toolchain.tasks.parameter import Parameter


@dataclass(frozen=True)
class PlainFunction:
    """An unscheduled function that computes a task; see `tasks.reference.TaskReference`.

    Attributes
    ----------
    definition
        The function as text.
    results
        Shapes and types of its outputs.
    """

    definition: str = field(repr=False)
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Compile the function for this host, run it on each draw, and return the outputs."""
        try:
            module = _vectors_last(function_of(self.definition))
            main = tvm.compile(module, target=target_for(host_profile()).target)[MAIN]
            return [self._outputs(main, draw) for draw in draws]
        except ToolchainError:
            raise
        except Exception as error:  # TVM raises anything from TypeError to its own kinds
            raise ToolchainError(f"TVM cannot compute a task's definition: {first_line(error)}") from error

    def _outputs(self, main: tvm.runtime.Function, draw: Sequence[Array]) -> list[Array]:
        device = tvm.cpu()
        results = [tvm.runtime.empty(each.shape, each.dtype, device) for each in self.results]
        main(*(tvm.runtime.tensor(array, device) for array in draw), *results)
        return [result.numpy() for result in results]


def plain_function(task: FusedTask) -> PlainFunction:
    """Return the reference of a task."""
    inputs = len(task.parameters) - task.outputs
    return PlainFunction(task.definition, task.parameters[:inputs], task.parameters[inputs:])


def _vectors_last(func: tirx.PrimFunc) -> tvm.IRModule:
    """Return a function whose reduction loops are outside the last axis of their output."""
    schedule = s_tir.Schedule(module_of(func))
    try:
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            axes = zip(schedule.get_loops(block), schedule.get(block).iter_vars, strict=True)
            kinds = [(loop, axis.iter_type == tirx.IterVar.DataPar) for loop, axis in axes]
            summed = [loop for loop, spatial in kinds if not spatial]
            others = [loop for loop, spatial in kinds if spatial]
            longer = [loop for loop in others if int(schedule.get(loop).extent) > 1]
            if summed and longer:
                schedule.reorder(*summed, longer[-1])
    except (s_tir.ScheduleError, ValueError, tvm.error.InternalError):
        return module_of(func)  # unchanged: correct, but slower
    return schedule.mod

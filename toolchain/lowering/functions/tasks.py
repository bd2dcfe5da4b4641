"""The tunable functions of a fused network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.ir.expr import GenericConst
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.tirx import PrimFunc

from toolchain import tvm_compat
from toolchain.arrays import Array
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import first_line
from toolchain.host import host_profile
from toolchain.lowering.functions.definition import MAIN, definition_of, function_of, module_of
from toolchain.models.multi_shape import entries
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Parameter
from toolchain.tasks.task import Task

# Hashes what a function computes; records are stored under this hash.

# Attributes that name a function or repeat facts in its body; passes add and drop them.
_LABELS = ("global_symbol", "op_pattern", "tirx.noalias", "s_tir")


def unlabelled(func: PrimFunc) -> PrimFunc:
    """Return the function without attributes that only name it."""
    for label in _LABELS:
        func = func.without_attr(label)
    return func


def workload_hash(func: PrimFunc) -> str:
    """Return 16 hexadecimal digits that are equal for equal computations, in every process.

    Names of functions, buffers, variables and blocks are ignored.
    """
    return f"{tvm_ffi.structural_hash(unlabelled(func)) & (2**64 - 1):016x}"


def same_workload(a: PrimFunc, b: PrimFunc) -> bool:
    """Whether two functions are structurally equal except for names, as equal hashes suggest."""
    return bool(tvm_ffi.structural_equal(unlabelled(a), unlabelled(b)))


@dataclass(frozen=True)
class FusedTask(Task):
    """One distinct fused function of a network, unscheduled.

    Attributes
    ----------
    outputs
        Number of the function's parameters that it writes.
    functions
        Names of all functions of the network that are structurally equal to it.
    call
        One of the network's calls of the function `name`, with its constants.
    """

    outputs: int
    functions: tuple[str, ...]
    func: tirx.PrimFunc = field(repr=False)
    call: relax.Call = field(repr=False)

    @cached_property
    def definition(self) -> str:
        """The function as text."""
        return definition_of(self.func)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The function's parameters in the network's layouts; constants have the values in `call`."""
        constants = {
            place: argument.value.numpy()
            for place, argument in enumerate(self.call.args[1].fields)
            if isinstance(argument, GenericConst)
        }
        return tuple(
            Parameter(shape, str(parameter.dtype), value=constants.get(place))
            for place, (shape, parameter) in enumerate(zip(self.shapes, self.func.params, strict=True))
        )


def extract_tasks(fused: tvm.IRModule) -> list[FusedTask]:
    """Return the tasks of a network, the heaviest (weight x flops) first."""
    shapes = [_calls(fused[name]) for name in entries(fused)]
    calls: dict[str, list[relax.Call]] = {}
    for each in shapes:
        for name, found in each.items():
            calls.setdefault(name, []).extend(found)
    groups: dict[str, list[str]] = {}
    for name in sorted(calls):
        groups.setdefault(workload_hash(fused[name]), []).append(name)
    tasks = []
    for workload, names in groups.items():
        func = fused[names[0]]
        tasks.append(
            FusedTask(
                workload=workload,
                name=names[0],
                weight=sum(len(calls[name]) for name in names),
                flops=_flops(func),
                shapes=_shapes(names[0], func),
                calls=_counts(names, shapes),
                outputs=_outputs(calls[names[0]][0]),
                functions=tuple(names),
                func=func,
                call=calls[names[0]][0],
            )
        )
    return sorted(tasks, key=lambda task: (-task.weight * task.flops, task.name))


def _counts(names: list[str], shapes: list[dict[str, list[relax.Call]]]) -> tuple[int, ...]:
    """Return how many times each shape calls functions of these names; nothing for one shape."""
    if len(shapes) == 1:
        return ()
    return tuple(sum(len(calls.get(name, ())) for name in names) for calls in shapes)


def _flops(func: tirx.PrimFunc) -> int:
    """Return TVM's estimate, with loops of data-dependent length counted as one iteration.

    TVM counts 2^31 iterations for them. Its estimate for a sort on a device is negative; 0 is returned then.
    """
    once = tvm_compat.mutated(func, [(tirx.For, _once)])
    return max(0, int(estimate_tir_flops(tvm.IRModule({"main": once}))))


def _once(loop: tirx.For, mutator: tvm_ffi.StructuralMutator) -> tirx.Stmt:
    made = mutator.default_mutate(loop)
    if isinstance(loop.extent, tirx.IntImm):
        return made
    return tirx.For(loop.loop_var, loop.min, 1, loop.kind, made.body)


def _shapes(name: str, func: tirx.PrimFunc) -> tuple[tuple[int, ...], ...]:
    extents = [list(parameter.shape) for parameter in func.params]
    if not all(isinstance(extent, tirx.IntImm) for shape in extents for extent in shape):
        raise UsageError(
            f"the network cannot be compiled: a shape in its part {name} depends on the data",
            "export the network without operators such as NonMaxSuppression and NonZero",
        )
    return tuple(tuple(int(extent) for extent in shape) for shape in extents)


def _calls(network: relax.Function) -> dict[str, list[relax.Call]]:
    """Return all of a network's calls of each function, by its name."""
    calls: dict[str, list[relax.Call]] = {}
    call_tir = tvm.ir.Op.get("relax.call_tir")

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Call) and node.op == call_tir:
            calls.setdefault(node.args[0].name_hint, []).append(node)

    relax.analysis.post_order_visit(network, visit)
    return calls


def _outputs(call: relax.Call) -> int:
    return len(call.ty.fields) if isinstance(call.ty, relax.TupleType) else 1


# Computes a task's definition on this host: the reference for all candidates.
#
# The function is compiled without our schedules and generators. Only the loops of reductions are reordered,
# by TVM's `reorder`: with the last axis of the output innermost, LLVM vectorises, and a convolution of 3.7
# GFLOP takes 2 s instead of 12.


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

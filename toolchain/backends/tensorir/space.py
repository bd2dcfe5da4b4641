"""The space of one task: schedules that MetaSchedule's rules can produce."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from random import Random
from typing import NoReturn

import numpy as np
import tvm
from tvm import s_tir, tirx
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from toolchain.backends.tensorir.kinds import DEFAULT, KINDS
from toolchain.backends.tensorir.rules import tune_context
from toolchain.backends.tensorir.traces import (
    parse_trace,
    schedule_from,
    trace_entry,
    traced,
    with_attributes,
)
from toolchain.errors import ToolchainError, UsageError
from toolchain.lowering.functions.definition import MAIN, function_of, module_of
from toolchain.lowering.functions.tasks import FusedTask, workload_hash
from toolchain.lowering.kernels.code import code_of
from toolchain.lowering.kernels.recipe import Recipe
from toolchain.lowering.schedules.gpu_defaults import device_schedule
from toolchain.lowering.schedules.rows import default_schedule
from toolchain.processes.interrupts import uninterrupted
from toolchain.records.store import Usable, anything
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Candidate, Entry

# Recipes of scheduled functions: the function before scheduling, and the schedule.


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


_DRAWS = 128  # largest number of draws per sample; most are legal, of TVM's own for CUDA one in twelve
_SEEDS = 2**31 - 1  # largest seed of TVM's generators; the smallest is 1
_NEIGHBOURS = 8
_KEPT = 64  # cached scheduled functions: one that is inspected is compiled next, and a trace takes tens of ms


@dataclass(frozen=True)
class Schedules:
    """A point of the space: the default schedule, or a trace.

    Attributes
    ----------
    entry
        Record entry that identifies the point.
    definition
        Definition of the function for which the trace was measured; empty: the task's own function.
    """

    entry: Entry
    definition: str = field(default="", compare=False)


THE_DEFAULT = Schedules(Entry(DEFAULT, "", DEFAULT))


class TraceSpace:
    """The schedules of one task; see `tasks.space.Space`. They cannot be counted."""

    kinds: tuple[str, ...] = KINDS
    excluded = ""

    def __init__(self, task: FusedTask, target: BoardTarget) -> None:
        self.task, self.target = task, target
        self.usable: Usable = anything
        self.allowed: Usable = anything
        self.module = module_of(task.func)
        self._traced = lru_cache(_KEPT)(self._apply)

    @property
    def size(self) -> None:
        """None: there is no limit."""
        return

    def default(self) -> Schedules:
        """Return the schedule that builds use without records."""
        return THE_DEFAULT

    def legal(self, point: Schedules) -> bool:
        """Return whether a schedule applies to the task."""
        try:
            self.check(point)
        except ToolchainError:
            return False
        return True

    def check(self, point: Schedules) -> None:
        """Apply a schedule to the task's function.

        Raises
        ------
        ToolchainError
            The schedule belongs to another function, or no longer applies.
        """
        self._scheduled(point)

    def point(self, index: int) -> NoReturn:
        """Raise UsageError: the schedules are not numbered."""
        raise self._unordered(f"point {index}")

    def index(self, point: Schedules) -> NoReturn:
        """Raise UsageError: the schedules are not numbered."""
        raise self._unordered(point.entry.digest)

    def sample(self, random: Random) -> Schedules:
        """Return a random schedule: random decisions for one of the rules' sketches.

        Raises
        ------
        ToolchainError
            No draw is legal.
        """
        for _ in range(_DRAWS):
            sketch = random.choice(self._sketches)
            with uninterrupted():
                point = self._applied(sketch, random)
            if point is not None:
                return point
        raise ToolchainError(f"none of {_DRAWS} schedules that were drawn for task {self.task.id} is legal")

    def neighbours(self, point: Schedules, random: Random) -> list[Schedules]:
        """Return schedules with one decision changed by MetaSchedule's mutators."""
        if point == THE_DEFAULT:
            return []
        with uninterrupted():
            trace = self._trace(point)
            found = {}
            for mutator in self._context.space_generator.mutator_probs:
                for _ in range(_NEIGHBOURS):
                    changed = mutator.apply(trace)
                    if changed is not None and (near := self._applied(changed, random)) is not None:
                        found[near.entry.digest] = near
        others = [each for digest, each in found.items() if digest != point.entry.digest]
        random.shuffle(others)
        return others[:_NEIGHBOURS]

    def features(self, point: Schedules) -> list[float]:
        """Return the sum of MetaSchedule's features over all stores."""
        return self._features(module_of(self._scheduled(point)))

    def _features(self, module: tvm.IRModule) -> list[float]:
        extractor = ms.feature_extractor.PerStoreFeature(extract_workload=True)
        arguments = list(ms.arg_info.ArgInfo.from_entry_func(module, remove_preproc=True))
        candidate = ms.MeasureCandidate(Schedule(module), arguments)
        (rows,) = extractor.extract_from(self._context, [candidate])
        return [float(value) for value in np.asarray(rows.numpy()).sum(axis=0)]

    def foreign_features(self, entry: Entry, definition: str) -> list[float]:
        """Return the features of another task's schedule.

        Raises
        ------
        ToolchainError
            The schedule no longer applies to that task.
        """
        func = function_of(definition)
        if entry.kind == DEFAULT:
            return self._features(module_of(self._unrecorded(func).function()))
        return self._features(traced(entry.payload, func).mod)

    def adapted(self, entry: Entry, definition: str) -> Schedules | None:
        """Return the schedule if it was measured for this task elsewhere; a trace fits no other task."""
        if entry.kind == DEFAULT or workload_hash(function_of(definition)) != self.task.workload:
            return None
        return self.read(entry, definition)

    def rule(self, point: Schedules) -> str:
        """Return the kind of the point."""
        if point != THE_DEFAULT:
            return point.entry.kind
        return "rows" if self.target.limits is None else "dlight"

    def entry(self, point: Schedules) -> Entry:
        """Return a schedule in the form of a record."""
        return point.entry

    def read(self, entry: Entry, definition: str) -> Schedules:
        """Return the schedule of a record; `check` tells whether it applies.

        Raises
        ------
        ToolchainError
            The record is damaged.
        """
        if entry.kind == DEFAULT:
            return THE_DEFAULT
        parse_trace(entry.payload, self.task.workload)
        return Schedules(entry, definition)

    def scheduled(self, point: Schedules, func: tirx.PrimFunc) -> tirx.PrimFunc:
        """Return a function of the task with the schedule of a point.

        Raises
        ------
        ToolchainError
            The schedule does not apply.
        """
        if point == THE_DEFAULT:
            return self._unrecorded(func).function()
        return with_attributes(self._traced(point.entry.payload, point.definition), func)

    def candidate(self, point: Schedules) -> Candidate:
        """Return a candidate; the schedule is applied when the candidate is compiled."""
        code = code_of(self._recipe(point), self.target.target)
        return Candidate(point.entry, code, self.task.parameters, self.task.outputs, self.target.kind)

    @property
    def arguments(self) -> list[ms.arg_info.ArgInfo]:
        """The parameters of the function, in MetaSchedule's form."""
        return list(ms.arg_info.ArgInfo.from_entry_func(self.module, remove_preproc=True))

    @cached_property
    def _context(self) -> ms.TuneContext:
        return tune_context(self.module, self.target, self.task.name, seed=1)

    @cached_property
    def _sketches(self) -> list[Trace]:
        """The rules' sketches: traces with open decisions."""
        with uninterrupted():
            return [Trace(each.trace.insts, {}) for each in self._context.generate_design_space()]

    def _applied(self, trace: Trace, random: Random) -> Schedules | None:
        """Draw the open decisions of a trace; return its point, or None if it is not legal."""
        schedule = Schedule(self.module, seed=random.randrange(1, _SEEDS))
        try:
            trace.apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            if not all(each.apply(schedule) for each in self._context.space_generator.postprocs):
                return None
        except s_tir.ScheduleError:
            return None
        return Schedules(trace_entry(schedule.trace, self.arguments))

    def _trace(self, point: Schedules) -> Trace:
        """Return a point's trace, applied to this task's function."""
        return traced(point.entry.payload, self.module[MAIN]).trace

    def _recipe(self, point: Schedules) -> Recipe:
        if point == THE_DEFAULT:
            return self._unrecorded(self.task.func)
        return Traced(point.entry.payload, point.definition or self.task.definition, self.task.func)

    def _unrecorded(self, func: tirx.PrimFunc) -> Recipe:
        return unrecorded(func, self.target.target)

    def _scheduled(self, point: Schedules) -> tirx.PrimFunc:
        return self.scheduled(point, self.task.func)

    def _apply(self, payload: str, definition: str) -> tirx.PrimFunc:
        return schedule_from(payload, definition or self.task.definition, self.task.func)

    def _unordered(self, point: str) -> UsageError:
        return UsageError(
            f"the schedules of task {self.task.id} ({self.task.name}) have no order: there is no {point}",
            "use --tuner random or evolutionary, or --layout packed",
        )

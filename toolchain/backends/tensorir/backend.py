"""The backend `tensorir`: plain loops with default schedules or those of MetaSchedule."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import tvm
from tvm.s_tir import meta_schedule as ms

from toolchain.backends.tensorir.rules import tune_context
from toolchain.backends.tensorir.space import THE_DEFAULT, Schedules, TraceSpace
from toolchain.backends.tensorir.traces import trace_entry, traced
from toolchain.devices.device import CPU
from toolchain.errors import ToolchainError, UsageError
from toolchain.lowering.functions.definition import MAIN
from toolchain.lowering.fused import FusedNetwork, needs_of
from toolchain.lowering.graph.shapes import copied_constants
from toolchain.lowering.kernels.listing import list_code
from toolchain.lowering.modelled import device_runners
from toolchain.models.load import Model
from toolchain.processes.interrupts import uninterrupted
from toolchain.profiles import Profile
from toolchain.targets.target import BoardTarget, device_target, target_for
from toolchain.tasks.backend import MakeTuner, Objects, OffBoards, Progress
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Experience, Result, Space

# MetaSchedule's evolutionary search over the schedules of one task, with its own cost model.

_EARLIER = 64  # largest number of earlier results that a search begins with
_GENERATION = 64  # schedules bred at once, as in MetaSchedule: breeding one takes nearly as long
_BARREN = 5  # generations without a new schedule after which the space counts as exhausted
_MOST = 1 << 30  # trials: the caller decides when to stop


def cost_model() -> ms.CostModel:
    """Return boosted trees, or a random model if the installed xgboost does not work with TVM."""
    try:
        return ms.cost_model.XGBModel()
    except Exception as error:  # TVM uses private names of xgboost: any release may break them
        warnings.warn(f"xgboost does not work with TVM ({error}): candidates are guessed", stacklevel=2)
        return ms.cost_model.RandomModel()


_Lesson = tuple[ms.TuneContext, list[ms.MeasureCandidate], list[ms.runner.RunnerResult]]


class Lessons:
    """A cost model with results that it has not learned yet: it is trained right before it is used.

    With training after every batch, a fifth of a run was training (128 trials of two convolutions), while
    schedules are bred once in eight batches.
    """

    def __init__(self, model: ms.CostModel) -> None:
        self.model = model
        self._waiting: list[_Lesson] = []

    def add(
        self,
        context: ms.TuneContext,
        candidates: list[ms.MeasureCandidate],
        results: list[ms.runner.RunnerResult],
    ) -> None:
        """Store the results of a task's candidates until the next training."""
        for known, its_candidates, its_results in self._waiting:
            if known.same_as(context):
                its_candidates += candidates
                its_results += results
                return
        self._waiting.append((context, [*candidates], [*results]))

    def learned(self) -> ms.CostModel:
        """Train the model with all stored results and return it."""
        for lesson in self._waiting:
            self.model.update(*lesson)
        self._waiting.clear()
        return self.model


class Evolutionary:
    """Proposes schedules that MetaSchedule breeds; see `tasks.tuner.Tuner`.

    Parameters
    ----------
    lessons
        Cost model with its results; may be shared with the searches of other tasks, which it then learns
        from.
    """

    transfers = False

    def __init__(self, space: TraceSpace, lessons: Lessons, seed: int) -> None:
        self.space, self.lessons, self.seed = space, lessons, seed
        self.target = space.target.target
        self.database = ms.database.MemoryDatabase()
        self.workload = self.database.commit_workload(space.module)
        self.context: ms.TuneContext | None = None  # the search, once it has begun
        self.seen: set[Schedules] = set()
        self.waiting: dict[Schedules, ms.MeasureCandidate] = {}  # bred, not proposed yet
        self.flying: dict[Schedules, ms.MeasureCandidate] = {}  # proposed, not measured yet

    def propose(self, count: int) -> list[Schedules]:
        """Return the next schedules: the most promising, and some random ones."""
        generations = 0
        while not self.waiting and generations < _BARREN:
            with uninterrupted():
                bred = self._begun(count).generate_measure_candidates()
            if bred is None:
                break
            points = {Schedules(trace_entry(each.sch.trace, each.args_info)): each for each in bred}
            self.waiting = {point: each for point, each in points.items() if point not in self.seen}
            generations += 1
        batch = list(self.waiting)[:count]
        self.flying.update((point, self.waiting.pop(point)) for point in batch)
        self.seen.update(batch)
        return batch

    def learn(self, measured: Sequence[tuple[Schedules, Result]]) -> None:
        """Report measured schedules to search strategy, cost model and database."""
        self.seen.update(point for point, _result in measured)
        if self.context is None:
            self._learn_earlier(measured)
            return
        candidates, results = [], []
        for point, result in measured:
            candidate = self.flying.pop(point, None)
            if candidate is None:
                continue
            seconds = _seconds(result)
            candidates.append(candidate)
            results.append(ms.runner.RunnerResult(seconds, result.message or None))
            if seconds:
                self._commit(candidate.sch.trace, seconds, candidate.args_info)
        if not candidates:
            return
        with uninterrupted():
            self.context.notify_runner_results(candidates, results)
        self.lessons.add(self.context, candidates, results)

    def transfer(self, experience: Experience[Schedules]) -> None:
        """Do nothing: the shared cost model already learns from the other tasks of the run."""

    def close(self) -> None:
        """End the search."""
        if self.context is not None:
            self.context.post_tuning()
            self.context = None

    def _begun(self, batch: int) -> ms.TuneContext:
        model = self.lessons.learned()
        if self.context is None:
            space = self.space
            context = tune_context(space.module, space.target, space.task.name, self.seed)
            context.pre_tuning(
                max_trials=_MOST,
                num_trials_per_iter=max(batch, _GENERATION),
                design_spaces=context.generate_design_space(),
                database=self.database,
                cost_model=model,
            )
            self.context = context
        return self.context

    def _learn_earlier(self, measured: Sequence[tuple[Schedules, Result]]) -> None:
        """Begin from the best results of earlier runs, with another seed than theirs."""
        self.seed += len(measured)
        ran = [(point, result) for point, result in measured if not result.failure and point != THE_DEFAULT]
        for point, result in sorted(ran, key=lambda pair: pair[1].mean_ms)[:_EARLIER]:
            try:
                trace = traced(point.entry.payload, self.space.module[MAIN]).trace
            except ToolchainError:
                continue  # measured for an equal function with other block names: useless to a search
            arguments = json.loads(point.entry.payload)["arguments"]
            infos = [ms.arg_info.ArgInfo.from_json(argument) for argument in arguments]
            self._commit(trace, _seconds(result) or [], infos)

    def _commit(
        self, trace: tvm.s_tir.schedule.Trace, seconds: list[float], infos: Sequence[ms.arg_info.ArgInfo]
    ) -> None:
        self.database.commit_tuning_record(
            ms.database.TuningRecord(trace, self.workload, seconds, self.target, list(infos))
        )


def _seconds(result: Result) -> list[float] | None:
    return None if result.failure else [value / 1e3 for value in result.run_ms]


class TensorIR:
    """The backend with scheduled TensorIR on plain values; see `tasks.backend.Backend`."""

    name = "tensorir"
    runner = "boards"

    def __init__(self, profile: Profile, options: CodeOptions) -> None:
        if options.dtype != "float32":
            raise UsageError(
                f"--dtype {options.dtype}: there is no code for it in --layout {options.layout}",
                "leave --layout out",
            )
        self.profile, self.options, self.dtype = profile, options, options.dtype
        self.layout = options.layout
        self.runners: Mapping[str, OffBoards] = device_runners(
            profile, options.device_kind, options.device_name
        )

    def target(
        self, cluster: str | None = None, threads: int | None = None, *, integers: bool = False
    ) -> BoardTarget:
        """Return the target of the scheduled code, which computes integers as any other numbers."""
        del integers
        kind, name = self.options.device_kind, self.options.device_name
        if kind == CPU:
            return target_for(self.profile, cluster, threads)
        return device_target(self.profile, kind, name, cluster, threads, arch=self.options.arch)

    def lower(self, model: Model, target: BoardTarget, *, compiles: bool = False) -> TensorIRNetwork:
        """Return the fused network of a model, with its tasks."""
        return TensorIRNetwork(model, target, self.layout, compiles=compiles)


class TensorIRNetwork(FusedNetwork):
    """A fused network that is not scheduled yet; see `tasks.backend.Network`."""

    tuner = "evolutionary"

    def __init__(self, model: Model, target: BoardTarget, layout: str, *, compiles: bool) -> None:
        super().__init__(model, target, layout, f"tensorir {layout}", compiles=compiles)
        self.tuners: Mapping[str, MakeTuner[Schedules]] = {"evolutionary": self._evolutionary}
        self._spaces: dict[str, TraceSpace] = {}

    def space(self, task: Task) -> TraceSpace:
        """Return the space of a task; always the same object, which caches the schedules it has applied."""
        if task.workload not in self._spaces:
            self._spaces[task.workload] = TraceSpace(self.fused_task(task), self.target)
        return self._spaces[task.workload]

    def code(self, task: Task, point: Schedules, form: str) -> str:
        """Return the code of a scheduled function."""
        func = self.space(task).scheduled(point, self.fused_task(task).func)
        return list_code(func, self.target.target, form)

    def compile(self, points: Mapping[str, Schedules], folder: Path, progress: Progress) -> Objects:
        """Write the objects of the network."""
        functions = dict(self.fused.functions)
        rules = {}
        for task in self.tasks:
            space = self.space(task)
            point = points.get(task.workload, space.default())
            rules[task.name] = space.rule(point)
            for name in task.functions:
                functions[self.fused.get_global_var(name)] = space.scheduled(point, self.fused[name])
        module = tvm.IRModule(functions, attrs=self.fused.attrs)
        files = self.export(module, self.kernels(progress), folder, progress)
        return Objects(
            files,
            rules,
            self.workloads({name: name for task in self.tasks for name in task.functions}),
            needs_of(self.target, module),
            copied=copied_constants(module),
            products=dict.fromkeys(rules, self.target.dtype),
        )

    @cached_property
    def _lessons(self) -> Lessons:
        return Lessons(cost_model())

    def _evolutionary(self, task: Task, space: Space[Schedules], seed: int) -> Evolutionary:
        del space  # always a TraceSpace, which `self.space` returns again
        return Evolutionary(self.space(task), self._lessons, seed)

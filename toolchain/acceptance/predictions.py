"""The step that puts the times that models predict beside those that a clock shows, function by function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.context import AcceptContext, NetworkBuilt
from toolchain.acceptance.document import rounded
from toolchain.acceptance.found import FunctionPredicted, Predicted, PredictFound, RatesFound
from toolchain.acceptance.networks import absent, unreal
from toolchain.acceptance.public import keyword
from toolchain.acceptance.step import StepEnd
from toolchain.backends.table import backend_for, estimated_ms
from toolchain.boards.inventory.rates import with_rates
from toolchain.devices.device import CPU, VTA
from toolchain.devices.table import kind_of
from toolchain.measuring.bench import BenchResult, bench_bundle
from toolchain.measuring.execution import Execution, Sampling
from toolchain.profiles import Profile

CLASS_RATES, BOARD_RATES = "cpu, class's rates", "cpu, board's rates"
_MOST = 256
_PROFILE_S = 5.0
_CALL_OF_VTA = "vta"  # in the names of a profile, where a program is begun


@dataclass(frozen=True)
class ModelSaid:
    """The times that a model predicts.

    Attributes
    ----------
    model
        Name of the model.
    tasks
        Times of single tasks; empty if it has one for the device's whole part of the network.
    ms
        Time of the device's part; None: the sum over the tasks.
    """

    model: str
    tasks: Sequence[TaskTime] = ()
    ms: float | None = None


@dataclass(frozen=True)
class TaskTime:
    """The time that a model has for all calls of a task in one inference."""

    id: str
    name: str
    choice: str
    ms: float


def predict(context: AcceptContext, choice: NetworkChoice, kind: str) -> StepEnd:
    """Profile a network, and put the predictions of each model of the device beside it."""
    if gone := absent(context, kind):
        return gone
    built = context.built(choice, kind, keep=True)
    real = context.device(kind).real
    modelled = _cycles(context, built) if kind == VTA else list(_modelled(context, built, kind))
    if not modelled:
        return StepEnd("skipped", f"there is no model of this device of kind {keyword(kind)}")
    timed = _profile(context, built, kind) if real else None
    manifest = built.bundle.manifest
    found = PredictFound(
        network=choice.name,
        device=keyword(kind),
        real=real,
        threads=manifest.threads if timed is None else timed.threads,
        cluster=keyword(manifest.cluster),
        predictions=tuple(_beside(each, built, timed) for each in modelled),
    )
    caveat = unreal(context, kind)
    return StepEnd("passed", f"{caveat}; nothing to compare with the model" if caveat else "", found)


def _profile(context: AcceptContext, built: NetworkBuilt, kind: str) -> BenchResult:
    context.note(f"profiling {built.choice.name} on {kind}")
    return bench_bundle(built.bundle, context.on_board, Sampling(time_s=_PROFILE_S, profile=True))


def _modelled(context: AcceptContext, built: NetworkBuilt, kind: str) -> Iterator[ModelSaid]:
    """Yield the predictions of each model of a device that runs functions or kernels."""
    from toolchain.building.chosen import (
        chosen,  # imports TVM, which the plan does without
        modelled_ms,
    )
    from toolchain.lowering.modelled import models_of

    if kind == CPU:
        profile = context.board.profile
        yield ModelSaid(CLASS_RATES, _estimates(context, built, profile, profile))
        rates = context.done.get("rates")
        if rates is not None and isinstance(rates.found, RatesFound):
            measured = with_rates(profile, rates.found.rates)
            yield ModelSaid(BOARD_RATES, _estimates(context, built, profile, measured))
        return
    backend = backend_for(context.board.profile, built.choice.code_options(kind))
    target = backend.target()
    models = models_of(target.device)
    if not models:
        return
    context.note(f"asking the model {models[0].name}")
    times = []
    with backend.lower(built.model, target) as network:
        for task in network.tasks:
            point = chosen(network, task, context.store, context.board.record_class)
            ms = modelled_ms(point.kernels(model=True).kernels)
            if ms is not None:
                times.append(TaskTime(task.id, task.name, point.rule, ms * task.weight))
    yield ModelSaid(models[0].name, times)


def _cycles(context: AcceptContext, built: NetworkBuilt) -> list[ModelSaid]:
    """Return the time by the cycle model that all programs of a VTA take, counted by edge-rt's simulation."""
    simulation = f"{VTA}:{kind_of(VTA).simulation}"
    context.note(f"counting cycles of {built.choice.name} by {simulation}")
    sampling, execution = Sampling(repeat=1, warmup=0), Execution(device=simulation)
    counted = bench_bundle(built.bundle, context.on_board, sampling, execution)
    said = counted.modelled
    return [ModelSaid(f"vta cycles, model {said['version']}", ms=said["ms"])] if said else []


def _estimates(context: AcceptContext, built: NetworkBuilt, own: Profile, rated: Profile) -> list[TaskTime]:
    """Return the code generator's estimates for the code that was built, by the rates in `rated`."""
    from toolchain.building.chosen import chosen  # imports TVM

    code = built.choice.code_options(CPU)
    backend, other = backend_for(own, code), backend_for(rated, code)
    integral = built.model.integral
    times = []
    with (
        backend.lower(built.model, backend.target(integers=integral)) as network,
        other.lower(built.model, other.target(integers=integral)) as by_rates,
    ):
        for task in network.tasks:
            point = chosen(network, task, context.store, context.board.record_class)
            ms = estimated_ms(by_rates.space(task), point.point)
            if ms is not None:
                times.append(TaskTime(task.id, task.name, point.rule, ms * task.weight))
    return times


def _beside(said: ModelSaid, built: NetworkBuilt, timed: BenchResult | None) -> Predicted:
    """Put a model's times beside those of a profile of the network; None: beside nothing."""
    operators = list(timed.operators or ()) if timed is not None else []
    measured = _by_task(built, operators)
    rows = [
        FunctionPredicted(
            task=keyword(each.name),
            choice=keyword(each.choice),
            predicted_ms=rounded(each.ms),
            measured_ms=rounded(measured[each.id]) if each.id in measured else None,
        )
        for each in sorted(said.tasks, key=lambda each: -each.ms)
        if timed is None or each.id in measured
    ]
    predicted, total = said.ms, sum(each["ms"] for each in operators if _CALL_OF_VTA in each["name"])
    if predicted is None:
        predicted, total = (
            sum(each.predicted_ms for each in rows),
            sum(each.measured_ms or 0.0 for each in rows),
        )
    whole = sum(each["ms"] for each in operators)
    return Predicted(
        model=said.model,
        predicted_ms=rounded(predicted),
        measured_ms=rounded(total) if total else None,
        share=rounded(total / whole) if total else None,
        functions=tuple(rows[:_MOST]),
    )


def _by_task(built: NetworkBuilt, operators: Iterable[Mapping[str, Any]]) -> Mapping[str, float]:
    """Return the measured milliseconds of all calls of each task that a profile has, by its id."""
    by_function = {each["name"]: each["ms"] for each in operators}
    return {
        task.id: sum(by_function.get(name, 0.0) for name in task.functions)
        for task in built.bundle.manifest.tasks
        if any(name in by_function for name in task.functions)
    }

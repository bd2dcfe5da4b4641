"""The step that puts the times that models predict beside those that a clock shows, function by function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.context import WAIT_S, AcceptContext, NetworkBuilt
from toolchain.acceptance.document import rounded
from toolchain.acceptance.found import FunctionPredicted, Predicted, PredictFound, RatesFound
from toolchain.acceptance.networks import absent, unreal
from toolchain.acceptance.public import keyword
from toolchain.acceptance.step import StepEnd
from toolchain.backends.table import backend_for, estimated_ms
from toolchain.boards.inventory.rates import with_rates
from toolchain.building.chosen import chosen
from toolchain.building.explain import modelled_ms
from toolchain.devices.device import CPU, VTA
from toolchain.devices.table import kind_of
from toolchain.lowering.modelled import models_of
from toolchain.measuring.bench import BenchResult, bench_bundle
from toolchain.profiles import Profile

CLASS_RATES, BOARD_RATES = "cpu, class's rates", "cpu, board's rates"
_MOST = 256
_PROFILE_S = 5.0
_CALL_OF_VTA = "vta"  # in the names of a profile, where a program is begun


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
    if kind == VTA:
        predictions, timed = _of_vta(context, built)
    else:
        modelled = list(_modelled(context, built, kind))
        if not modelled:
            return StepEnd("skipped", f"there is no model of this device of kind {keyword(kind)}")
        timed = _profile(context, built, kind)
        predictions = [
            _beside(model, times, built, timed if context.device(kind).real else None)
            for model, times in modelled
        ]
    found = PredictFound(
        network=choice.name,
        device=keyword(kind),
        real=context.device(kind).real,
        threads=timed.threads,
        cluster=keyword(timed.cluster),
        predictions=tuple(predictions),
    )
    caveat = unreal(context, kind)
    return StepEnd("passed", f"{caveat}; nothing to compare with the model" if caveat else "", found)


def _profile(context: AcceptContext, built: NetworkBuilt, kind: str) -> BenchResult:
    context.note(f"profiling {built.choice.name} on {kind}")
    return bench_bundle(built.bundle, context.board, time_s=_PROFILE_S, profile=True, wait=WAIT_S)


def _modelled(context: AcceptContext, built: NetworkBuilt, kind: str) -> Iterable[tuple[str, list[TaskTime]]]:
    """Yield each model of the device with the times that it predicts for tasks."""
    if kind == CPU:
        profile = context.board.profile
        yield CLASS_RATES, _estimates(context, built, profile, profile)
        rates = context.done.get("rates")
        if rates is not None and isinstance(rates.found, RatesFound):
            measured = with_rates(profile, rates.found.rates)
            yield BOARD_RATES, _estimates(context, built, profile, measured)
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
    yield models[0].name, times


def _estimates(context: AcceptContext, built: NetworkBuilt, own: Profile, rated: Profile) -> list[TaskTime]:
    """Return the code generator's estimates for the code that was built, by the rates in `rated`."""
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


def _beside(model: str, times: list[TaskTime], built: NetworkBuilt, timed: BenchResult | None) -> Predicted:
    """Put a model's times beside those of a profile of the network; None: beside nothing."""
    measured = {} if timed is None else _by_task(built, timed)
    rows = [
        FunctionPredicted(
            task=keyword(each.name),
            choice=keyword(each.choice),
            predicted_ms=rounded(each.ms),
            measured_ms=rounded(measured[each.id]) if each.id in measured else None,
        )
        for each in sorted(times, key=lambda each: -each.ms)
        if timed is None or each.id in measured
    ]
    total = sum(each.measured_ms or 0.0 for each in rows) if timed is not None else None
    whole = sum(each["ms"] for each in timed.operators or ()) if timed is not None else 0.0
    return Predicted(
        model=model,
        predicted_ms=rounded(sum(each.predicted_ms for each in rows)),
        measured_ms=None if total is None else rounded(total),
        share=rounded(total / whole) if total is not None and whole else None,
        functions=tuple(rows[:_MOST]),
    )


def _by_task(built: NetworkBuilt, timed: BenchResult) -> Mapping[str, float]:
    """Return the measured milliseconds of all calls of each task that the profile has, by its id."""
    by_function = {each["name"]: each["ms"] for each in timed.operators or ()}
    return {
        task.id: sum(by_function.get(name, 0.0) for name in task.functions)
        for task in built.bundle.manifest.tasks
        if any(name in by_function for name in task.functions)
    }


def _of_vta(context: AcceptContext, built: NetworkBuilt) -> tuple[list[Predicted], BenchResult]:
    """Return the cycle model's time of the programs, and that of their calls on hardware if there is any."""
    simulation = f"{VTA}:{kind_of(VTA).simulation}"
    context.note(f"counting cycles of {built.choice.name} by {simulation}")
    counted = bench_bundle(built.bundle, context.board, repeat=1, warmup=0, device=simulation, wait=WAIT_S)
    if counted.modelled is None:
        return [], counted
    timed, measured, share = counted, None, None
    if context.device(VTA).real:
        timed = _profile(context, built, VTA)
        operators: Any = timed.operators or ()
        measured = sum(each["ms"] for each in operators if _CALL_OF_VTA in each["name"])
        whole = sum(each["ms"] for each in operators)
        share = rounded(measured / whole) if whole else None
    row = Predicted(
        model=f"vta cycles, model {counted.modelled['version']}",
        predicted_ms=rounded(counted.modelled["ms"]),
        measured_ms=rounded(measured) if measured else None,
        share=share,
    )
    return [row], timed

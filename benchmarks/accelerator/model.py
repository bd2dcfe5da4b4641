"""A network's region by the cycle model: as it is built, and with the best cuts that there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from benchmarks.accelerator.regions import (
    CONFIG,
    alone,
    least_cycles,
    milliseconds,
    modelled,
    quantised,
    region_of,
)
from benchmarks.words import note
from toolchain.backends.vta.space import tasks_of
from toolchain.vta.compiling.estimate import default_knobs, legal_knobs
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.layers.layer import ConvShape, blocks_of
from toolchain.vta.layers.region import Knobs, Region, RegionLayer, seeded_layer
from toolchain.vta.machine.simulator import Simulator

BOUND_MS = 75.7
"""What the matrix unit and the ALU need at least for the 19 convolutions, without residuals, at 100 MHz."""
GOALS = {"untuned": 1.15, "best": 1.05}
TUTORIAL_MS = 621.79
"""What upstream's tutorial printed for a whole network on a board: also the CPU's layers, and its JIT."""


@dataclass(frozen=True)
class _Searched:
    """A layer's cuts, gone through."""

    points: int
    asked: int
    default: int
    best: int
    knobs: Knobs


def region(name: str) -> dict[str, Any]:
    """Return the model's times of a network's region: as tasks, as layers, as one program."""
    made = region_of(quantised(name, "mse"))
    tasks = {task.shape: task.weight for task in tasks_of([made])}
    with Simulator() as simulator:
        searched = {shape: _search(simulator, _plain(shape)) for shape in tasks}
        with_residual = {each.layer.shape: each for each in made.layers if each.residual is not None}
        residual = {shape: _search(simulator, each) for shape, each in with_residual.items()}
        best = {shape: each.knobs for shape, each in searched.items()}
        own = {shape: each.knobs for shape, each in residual.items()}
        programs = {
            "untuned": made,
            "best_of_tasks": _with(made, best, best),
            "best_of_layers": _with(made, best, own),
        }
        counted = {which: modelled(simulator, each) for which, each in programs.items()}
        layers = sum(modelled(simulator, alone(each)).cycles for each in made.layers)
    sums = {
        "untuned": sum(tasks[shape] * each.default for shape, each in searched.items()),
        "best": sum(tasks[shape] * each.best for shape, each in searched.items()),
    }
    model, steps = CONFIG.cycles, counted["untuned"]
    return {
        "kind": f"model, at {CONFIG.cycles.mhz} MHz; nothing was measured",
        "bound_ms": BOUND_MS,
        "goals": GOALS,
        "tasks_ms": {which: _beside(cycles) for which, cycles in sums.items()},
        "program_ms": {which: _beside(each.cycles) for which, each in counted.items()},
        "layers_alone_ms": milliseconds(layers),
        "steps_ms": milliseconds(steps.gemm_steps * model.gemm_step + steps.alu_steps * model.alu_step),
        "steps_of_residuals_ms": milliseconds(sum(map(_residual_steps, made.layers))),
        "residuals": sum(each.residual is not None for each in made.layers),
        "tutorial_measured_on_a_board_ms": TUTORIAL_MS,
        "tasks": [{"count": tasks[shape], **_row(shape, each)} for shape, each in searched.items()],
        "with_residual": [_row(shape, each) for shape, each in residual.items()],
    }


def _plain(shape: ConvShape) -> RegionLayer:
    return RegionLayer(seeded_layer(shape, 0), "source", "result")


def _with(region: Region, plain: dict[ConvShape, Knobs], residual: dict[ConvShape, Knobs]) -> Region:
    """Return a region, cut as was found for its shapes: those without a residual, and those with one."""
    layers = [
        replace(each, knobs=(residual if each.residual else plain)[each.layer.shape])
        for each in region.layers
    ]
    return replace(region, layers=layers)


def _residual_steps(each: RegionLayer) -> int:
    """Return the cycles of adding a residual: a product with a diagonal, and a shift where it is large."""
    shape, model = each.layer.shape, CONFIG.cycles
    vectors = shape.oh * shape.ow * blocks_of(shape.oc, CONFIG.block)
    shifted = model.alu_step if each.layer.common_left else 0
    return vectors * (model.gemm_step + shifted) if each.residual else 0


def _search(simulator: Simulator, each: RegionLayer) -> _Searched:
    """Find the fastest of all cuts; those are not asked for whose instructions alone take longer."""
    shape, residual = each.layer.shape, each.residual is not None
    legal = legal_knobs(shape, CONFIG, residual)
    least = {knobs: least_cycles(Tiling(shape, knobs, CONFIG, residual)) for knobs in legal}
    default = default_knobs(shape, CONFIG, residual)
    found: dict[Knobs, int] = {}
    for knobs in [default, *sorted(legal, key=least.__getitem__)]:
        if knobs in found:
            continue
        if found and least[knobs] >= min(found.values()):
            break
        found[knobs] = modelled(simulator, alone(replace(each, knobs=knobs))).cycles
        if found[knobs] < least[knobs]:
            raise AssertionError(f"{shape} {knobs}: {found[knobs]} cycles, where {least[knobs]} is the least")
    best = min(found, key=found.__getitem__)
    note(f"{shape}{' with a residual' if residual else ''}: {found[default]} -> {found[best]} cycles")
    return _Searched(len(legal), len(found), found[default], found[best], best)


def _row(shape: ConvShape, each: _Searched) -> dict[str, Any]:
    return {
        "shape": str(shape),
        "cuts": each.points,
        "asked": each.asked,
        "default_ms": milliseconds(each.default),
        "best_ms": milliseconds(each.best),
        "best": str(each.knobs),
    }


def _beside(cycles: int) -> dict[str, float]:
    ms = milliseconds(cycles)
    return {"ms": ms, "of_bound": round(ms / BOUND_MS, 4)}

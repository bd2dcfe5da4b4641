"""Trials until a cut is within 5 % of the best: tuners, in spaces that the model has gone through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import median
from typing import Any

from benchmarks.accelerator.regions import CONFIG, alone, least_cycles, milliseconds, modelled
from benchmarks.tuners.replay import NEAR, Table, trials
from benchmarks.words import note
from toolchain.backends.vta.space import VtaSpace, VtaTask
from toolchain.tasks.tuner import Space, Tuner
from toolchain.tuning.tuners.table import TUNERS
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.layers.layer import ConvShape, read_shape
from toolchain.vta.layers.region import Knobs, RegionLayer, seeded_layer
from toolchain.vta.machine.simulator import Simulator

SHAPES = (
    "1,56,56,64,128,1,1,0,0,2,2",
    "1,28,28,128,256,1,1,0,0,2,2",
    "1,14,14,256,512,1,1,0,0,2,2",
)
"""ResNet-18's convolutions of one tap."""
GOAL = 0.5  # trials of xgb-knob / those of random
_HOPELESS = 4  # times the least: what such cuts take is not counted, their own least stands for it
_NAMES = ("random", "xgb", "xgb-knob", "ga")


def searches(shapes: Sequence[str], seeds: int) -> dict[str, Any]:
    """Return the median trials of each tuner; none is told of the default.

    Parameters
    ----------
    seeds
        How many runs.
    """
    with Simulator() as simulator:
        tables = [_table(simulator, read_shape(shape)) for shape in shapes]
    return {
        "kind": "model: cycles of the cuts were counted once, and are replayed",
        "until": NEAR,
        "seeds": seeds,
        "goal_ratio": GOAL,
        "tasks": [_row(table, seeds) for table in tables],
    }


def _table(simulator: Simulator, shape: ConvShape) -> Table:
    """Return the space of a task with the model's time of every point, in an order that says nothing.

    A space's own order is its formula's; where trees see no difference, that would decide.
    """
    space = VtaSpace(VtaTask(str(shape), str(shape), 1, 1, (), shape), CONFIG)
    points = Random(0).sample(space.points, len(space.points))  # noqa: S311
    note(f"{shape}: {space.size} points")
    layer = RegionLayer(seeded_layer(shape, 0), "source", "result")
    hopeless = _HOPELESS * least_cycles(Tiling(shape, space.default(), CONFIG))

    def cycles(knobs: Knobs) -> int:
        least = least_cycles(Tiling(shape, knobs, CONFIG))
        return least if least > hopeless else modelled(simulator, alone(replace(layer, knobs=knobs))).cycles

    times = [milliseconds(cycles(knobs)) for knobs in points]
    rows = [space.decisions(knobs) for knobs in points]
    return Table(str(shape), rows, [space.features(knobs) for knobs in points], times)


def _row(table: Table, seeds: int) -> dict[str, Any]:
    needed = {
        name: sorted(
            len(trials(table, TUNERS[name], seed, len(table.times), _untold)) for seed in range(1, seeds + 1)
        )
        for name in _NAMES
    }
    medians = {name: median(each) for name, each in needed.items()}
    near = sum(each <= NEAR * table.best for each in table.times)
    note(f"{table.task.name}: {medians}")
    return {
        "task": table.task.name,
        "points": len(table.times),
        "near_the_best": near,
        "best_ms": table.best,
        "median_trials": medians,
        "over_random": {name: round(each / medians["random"], 2) for name, each in medians.items()},
        "median_of_all_draws": _by_chance(len(table.times), near),
        "each": needed,
    }


def _by_chance(points: int, near: int) -> int:
    """Return after how many draws half of all random searches are near the best: counted, without a seed."""
    missed, drawn = 1.0, 0
    while missed > 0.5:
        missed *= (points - near - drawn) / (points - drawn)
        drawn += 1
    return drawn


def _untold(tuner: Tuner[Any], space: Space[Any], seed: int) -> None:
    """Say nothing of the default: it is the best already."""
    del tuner, space, seed

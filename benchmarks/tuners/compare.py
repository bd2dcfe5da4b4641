"""Tables of trials: of tuners, of schedulers and early stopping, and with records of other tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.tuners.replay import NEAR, Table, needed, tables
from benchmarks.tuners.runs import latency, outcome
from benchmarks.tuners.transfer import compared, summed
from benchmarks.tuners.vta import LARGE, RESNET_18
from toolchain.tuning.schedulers.scheduler import SCHEDULERS
from toolchain.tuning.tuners.table import TUNERS

_POINTS = 11  # of a packed space; in smaller ones the first batch has nearly all
_TRANSFERS = ("xgb",)
_HARD = 20  # trials that chance needs in spaces where transfer is asked for
_BUDGETS = (64, 128, 256)
_PATIENCES = (None, 16, 12, 8)
_SEARCHES = ("gridsearch", "xgb")


def tuners(data: Path, seeds: int, names: tuple[str, ...]) -> None:
    """Print the median trials of each tuner until a point within 5 % of the best."""
    # Where the default is near the best there is nothing to search for.
    packed = [each for each in tables(data) if each.size >= _POINTS and each.times[0] > NEAR * each.best]
    vta = [layer.table() for layer in (*RESNET_18, LARGE) if _wanted(layer.name, names)]
    print(_row(["space", "points", *TUNERS]), _row(["---"] * (2 + len(TUNERS))), sep="\n", flush=True)
    sums = []
    for space in [*packed, *vta]:
        if not _wanted(space.task.name, names):
            continue
        found = [needed(space, make, seeds) for make in TUNERS.values()]
        if space in packed:
            sums.append(found)
        print(_row([space.task.name, space.size, *(f"{each:g}" for each in found)]), flush=True)
    if sums:
        totals = [sum(column) for column in zip(*sums, strict=True)]
        print(_row([f"sum of {len(sums)} packed", "", *(f"{each:g}" for each in totals)]))


def transfer(data: Path, seeds: int, names: tuple[str, ...]) -> None:
    """Print trials without and with records, in the spaces of a kind in which chance needs many."""
    print(_row(["space", "tuner", "random", "without", "with", "ratio", "each seed without", "and with"]))
    print(_row(["---"] * 8), flush=True)
    for spaces in (tables(data), [layer.table() for layer in RESNET_18]):
        for space in spaces:
            if _wanted(space.task.name, names) and (chance := expected(space)) >= _HARD:
                for name in _TRANSFERS:
                    found = compared(spaces, space, TUNERS[name], seeds)
                    without, after, ratio = summed(found)
                    curves = [" ".join(map(str, sorted(each))) for each in found]
                    row = [
                        space.task.name,
                        name,
                        f"{chance:.0f}",
                        f"{without:g}",
                        f"{after:g}",
                        f"{ratio:.2f}",
                    ]
                    print(_row([*row, *curves]), flush=True)


def networks(data: Path, seeds: int, names: tuple[str, ...]) -> None:
    """Print what whole runs come to: schedulers by budget, then early stopping in runs without a limit."""
    by_network: dict[str, list[Table]] = {}
    for space in tables(data):
        by_network.setdefault(space.task.name.split()[0], []).append(space)
    for name, spaces in by_network.items():
        if not _wanted(name, names):
            continue
        untuned, best = (
            latency(spaces, picked)
            for picked in ([space.times[0] for space in spaces], [space.best for space in spaces])
        )
        points = sum(len(space.times) - 1 for space in spaces)
        print(f"\n{name}: {untuned:.2f} ms untuned, {best:.2f} ms at best, {points} points but the defaults")
        print(_row(["tuner", "scheduler", "early stopping", "trials", "ms"]), _row(["---"] * 5), sep="\n")
        for tuner in _SEARCHES:
            limited = [(scheduler, trials, None) for trials in _BUDGETS for scheduler in SCHEDULERS]
            stopped = [(next(iter(SCHEDULERS)), points, patience) for patience in _PATIENCES]
            for scheduler, trials, patience in [*limited, *stopped]:
                made = outcome(spaces, SCHEDULERS[scheduler], TUNERS[tuner], trials, patience, seeds)
                print(_row([tuner, scheduler, patience or "", made.trials, f"{made.ms:.3f}"]), flush=True)


def expected(space: Table) -> float:
    """Return how many trials chance needs on average: points are drawn without being put back."""
    near = sum(time <= NEAR * space.best for time in space.times)
    return (len(space.times) + 1) / (near + 1)


def _wanted(name: str, names: tuple[str, ...]) -> bool:
    return not names or name.startswith(names)


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"

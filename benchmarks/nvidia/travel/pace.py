"""How long rows take, which of them fit into what is left of a run, and how many runs all of them take."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.nvidia.travel.plan import Row

# Guesses, until rows of that kind were measured: a peer imports PyTorch and compiles in each row.
_GUESSED_S = {
    "edge-rt": 8.0,
    "torch eager": 12.0,
    "torch compile default": 30.0,
    "torch compile reduce-overhead": 30.0,
    "torch compile max-autotune": 90.0,
    "tensorrt": 60.0,
}
_OTHER_S = 30.0
_MOST_S = {"edge-rt": 60.0, "torch": 180.0, "tensorrt": 180.0}
_SLOW_S = 240.0  # max-autotune times many kernels for each layer
_TOLD = ("measured", "wrong", "late")  # a crash may come at once


def most_s(row: Row) -> float:
    """Return the deadline of a row in seconds."""
    return _SLOW_S if "max-autotune" in row.contender["name"] else _MOST_S[row.who]


def kind_of(who: str, name: str) -> str:
    """Return what rows have in common that take about the same time: contender and mode, without layout."""
    return f"{who} {name.split(',')[0]}" if who == "torch" else who


class Pace:
    """Seconds that rows take: as those of their kind took here, else a guess."""

    def __init__(self, rows: Iterable[dict[str, Any]] = ()) -> None:
        self._took: dict[str, list[float]] = {}
        for row in rows:
            self.learn(row)

    def learn(self, row: dict[str, Any]) -> None:
        """Note how long a row took, by its results."""
        if row.get("status") in _TOLD and "took_s" in row:
            self._took.setdefault(kind_of(row["who"], row["name"]), []).append(float(row["took_s"]))

    def seconds(self, row: Row) -> float:
        """Return the seconds that a row will likely take."""
        kind = kind_of(row.who, row.contender["name"])
        took = self._took.get(kind)
        return statistics.median(took) if took else _GUESSED_S.get(kind, _OTHER_S)

    def next_of(self, rows: Sequence[Row], left_s: float, *, first: bool) -> Row | None:
        """Return the first row that likely fits into the time; None if none does.

        The first row of a run always begins: a guess that is too high keeps no row from ever being measured.
        """
        return next((row for row in rows if first or self.seconds(row) <= left_s), None)

    def runs(self, rows: Sequence[Row], run_s: float) -> list[list[Row]]:
        """Return the rows that each run will likely measure, if all runs have as much time as the first."""
        runs, rest = [], list(rows)
        while rest:
            now: list[Row] = []
            left_s = run_s
            while (row := self.next_of(rest, left_s, first=not now)) is not None:
                now.append(row)
                rest.remove(row)
                left_s -= self.seconds(row)
            runs.append(now)
        return runs

    def forecast(self, rows: Sequence[Row], run_s: float) -> str:
        """Return a sentence about what this run will likely measure, and how many runs all rows take."""
        runs = self.runs(rows, run_s)
        kinds = [kind_of(row.who, row.contender["name"]) for row in runs[0]] if runs else []
        counted = ", ".join(f"{kinds.count(kind)} of {kind}" for kind in dict.fromkeys(kinds))
        wanted = sum(row.for_goals for row in rows)
        until = max((i for i, run in enumerate(runs, 1) if any(row.for_goals for row in run)), default=0)
        return (
            f"{len(rows)} rows are left, {wanted} of them for the goals. This run likely measures "
            f"{len(kinds)} ({counted or 'none'}); those for the goals likely take {_runs(until)}, "
            f"all of them {_runs(len(runs))}"
        )


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"

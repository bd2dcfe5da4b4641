"""The records of a tuning run, made up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.records.samples import KEY, PROVENANCE
from toolchain.records.record import Record


def _workload(place: int) -> str:
    return f"{0x1A2B3C4D + place:08x}" + "0" * 8


BEGUN = datetime(2026, 3, 9, 10, 0, tzinfo=UTC)
NAMES = {f"function-{place}": f"fused_conv2d{place}_add_relu" for place in range(40)}
WEIGHTS = {_workload(place): 1 + place % 3 for place in range(40)}


def records(
    run: str = "a1b2c3d4" * 4,
    tasks: int = 3,
    trials: int = 12,
    boards: tuple[str, ...] = ("b1", "b2"),
    cut: bool = False,
    later: timedelta = timedelta(),
    **provenance: Any,
) -> list[Record]:
    """Return defaults, trials in batches of four, some of them failed, and choices unless it was cut."""
    random = Random(1)
    stored: list[Record] = []
    seconds = 0.0

    def record(
        place: int, digest: str, number: int | None, ms: float | None, board: str, **more: Any
    ) -> Record:
        return Record(
            replace(KEY, workload=_workload(place)),
            f"function-{place}",
            "default" if digest == "default" else "cpu",
            "{}",
            digest,
            replace(
                PROVENANCE, run=run, trial=number, board=board, temperature_c=40 + seconds / 10, **provenance
            ),
            () if ms is None else (ms, ms),
            None if ms else "timeout" if number is None or number % 2 else "build",
            created=(BEGUN + later + timedelta(seconds=seconds)).isoformat(timespec="milliseconds"),
            **more,
        )

    best: dict[int, Record] = {}
    for place in range(tasks):
        best[place] = record(place, "default", None, 8.0 / (place + 1), boards[0])
        stored.append(best[place])
        seconds += 1.5
    number = 0
    for turn in range(trials // 4):
        for place in range(tasks):
            seconds += 6 * random.random() + 2
            for _ in range(4):
                fails = random.random() < 1 / 6
                ms = None if fails else 8.0 / (place + 1) * random.uniform(0.75 - 0.05 * turn, 1.6)
                trial = record(place, f"{place} {number}", number, ms, boards[number % len(boards)])
                stored.append(trial)
                if ms and ms < (best[place].best_ms or 0):
                    best[place] = trial
                number += 1
    seconds += 10
    if not cut:
        stored += [replace(choice, confirmed=True, created=stored[-1].created) for choice in best.values()]
    return stored

"""Computes from trials the curve of the best time so far for each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.foreign import printable


@dataclass(frozen=True)
class Curve:
    """The best time so far of one task, relative to its default.

    Attributes
    ----------
    relative
        Best time so far after each trial, divided by the default's time; at most 1.
    trials
        Time of each trial divided by the default's time; None for a failure.
    failed
        Numbers of the failed trials, from 1.
    """

    name: str
    relative: tuple[float, ...]
    trials: tuple[float | None, ...]
    failed: tuple[int, ...]


def curves(tasks: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """Return a curve for each of `tasks`, in their order; one without trials or default is empty."""
    return [_curve(task, [trial for trial in trials if trial["task"] == task["id"]]) for task in tasks]


def _curve(task: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> Curve:
    best = default = task["default_ms"]
    name = printable(f"{task['id']} {task['name']}")
    if not default:
        return Curve(name, (), (), ())
    relative = []
    for trial in trials:
        if trial["ms"] is not None:
            best = min(best, trial["ms"])
        relative.append(best / default)
    failed = tuple(number for number, trial in enumerate(trials, 1) if trial["ms"] is None)
    each = tuple(None if trial["ms"] is None else trial["ms"] / default for trial in trials)
    return Curve(name, tuple(relative), each, failed)

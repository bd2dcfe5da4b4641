"""The numbers of a tuning run as text."""

from __future__ import annotations

from toolchain.cli.tuning.standing import Row, Standing
from toolchain.quantities import counted, shown_gflops, shown_ms
from toolchain.tuning.events import Trial

HEADERS = ("ID", "NAME", "BEST", "SPEED", "TRIALS")
"""Headings of `cells`."""


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a task's row."""
    failed = f" ({row.failed} failed)" if row.failed else ""
    return (
        row.task.id,
        row.task.name,
        shown_ms(row.best_ms),
        shown_gflops(row.gflops),
        f"{row.trials}{failed}",
    )


def total(standing: Standing) -> str:
    """Return the line below the table."""
    parts = [f"These tasks: {shown_ms(standing.estimated_ms)} per inference"]
    if standing.untuned_ms is not None:
        parts[0] += f" ({shown_ms(standing.untuned_ms)} without tuning)"
    parts.append(f"Trials: {standing.trials}/{standing.limit}")
    parts.append(f"{standing.seconds:.0f} s")
    parts.append(f"At work on: {', '.join(standing.at_work) or '-'}")
    return "  ".join(parts)


def batch(standing: Standing, row: Row) -> str:
    """Return a line about a measured batch."""
    trials = counted(row.trials, "trial")
    failed = f", {row.failed} failed" if row.failed else ""
    return (
        f"{_count(standing)}  {row.task.id}  best {shown_ms(row.best_ms):>8} a call"
        f"  {shown_gflops(row.gflops):>13}  {trials}{failed}"
        f"  these tasks: {shown_ms(standing.estimated_ms)} per inference"
        f"  {standing.seconds:.0f} s  {row.task.name}"
    )


def trial(standing: Standing, event: Trial) -> str:
    """Return a line about one candidate."""
    place = _count(standing) if event.stage == "search" else event.stage.rjust(9)
    board = f"  on {event.board}" if event.board else ""
    return f"{place}  {event.task.id}  {outcome(event)}{board}  {event.task.name}"


def outcome(event: Trial) -> str:
    """Return the result of one candidate as text."""
    if event.ms is None:
        return f"failed, {event.failure}: {event.message}"
    took = f"{shown_ms(event.ms):>8} a call"
    return took if event.stage == "default" else f"{took}, best so far {shown_ms(event.best_ms)}"


def _count(standing: Standing) -> str:
    return f"{standing.trials}/{standing.limit}".rjust(9)

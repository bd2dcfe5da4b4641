"""The report of a rollout, made from its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from toolchain.events.rollouts import (
    WORKS,
    BoardOutcome,
    GateJudged,
    JournalEvent,
    PhaseStarted,
    RolloutBegan,
    RolloutEnded,
)
from toolchain.files import atomic
from toolchain.reports.page import render
from toolchain.reports.rollout_charts import boards_by_state, latency_boxes
from toolchain.rollouts.course import outcomes_of
from toolchain.rollouts.journal import beginning


@dataclass(frozen=True)
class PhaseRow:
    """One phase: when it began, how many of its boards run the release, and what the gate said."""

    number: int
    began: str
    boards: int
    working: int
    gate: GateJudged | None


def write_rollout_report(path: Path, events: Sequence[JournalEvent]) -> None:
    """Write the page of a rollout atomically; equal journals give equal bytes.

    Raises
    ------
    ToolchainError
        The file system refused.
    """
    atomic.write_text(path, rollout_page(events))


def rollout_page(events: Sequence[JournalEvent]) -> str:
    """Return the page of a rollout as HTML."""
    began, found = beginning(events), outcomes_of(events)
    skipped = BoardOutcome(state="skipped", error="the rollout has not reached it")
    phases = [[(name, found.get(name, skipped)) for name in names] for names in began.phases]
    latencies = [[o.test.latency_us / 1e3 for _, o in each if o.test and o.works] for each in phases]
    lab = began.lab
    lab_ms = lab.latency_us / 1e3 if lab and lab.latency_us else None
    causes = Counter(_cause(o) for each in phases for _, o in each if not o.works)
    last = events[-1]
    return render(
        "rollout.html.j2",
        began=began,
        when=_time(began.at),
        seconds=last.at - began.at,
        ended=last if isinstance(last, RolloutEnded) else None,
        working=sum(o.works for each in phases for _, o in each),
        boards=[(number, name, o) for number, each in enumerate(phases, 1) for name, o in each],
        sent=sum(o.bytes_sent for each in phases for _, o in each),
        phases=_phases(events, began, found),
        causes=causes.most_common(),
        lab_ms=lab_ms,
        by_state=boards_by_state(_counts(phases), WORKS),
        boxes=latency_boxes(latencies, lab_ms) if any(latencies) else "",
    )


def _counts(phases: Sequence[Sequence[tuple[str, BoardOutcome]]]) -> dict[str, list[int]]:
    states = Counter(outcome.state for each in phases for _, outcome in each)
    return {
        state: [sum(outcome.state == state for _, outcome in each) for each in phases]
        for state, _ in states.most_common()
    }


def _phases(
    events: Sequence[JournalEvent], began: RolloutBegan, found: dict[str, BoardOutcome]
) -> list[PhaseRow]:
    starts = {event.phase: event.at for event in reversed(events) if isinstance(event, PhaseStarted)}
    gates = {event.phase: event for event in events if isinstance(event, GateJudged)}
    return [
        PhaseRow(
            number,
            _time(starts[number]) if number in starts else "not begun",
            len(names),
            sum(name in found and found[name].works for name in names),
            gates.get(number),
        )
        for number, names in enumerate(began.phases, 1)
    ]


def _cause(outcome: BoardOutcome) -> str:
    if outcome.cause:
        return f"{outcome.state} in {outcome.cause.step}: {outcome.cause.code}"
    return outcome.state


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"

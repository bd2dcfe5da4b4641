"""The report of a rollout with its plots, made from its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

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
from toolchain.quantities import counted, shown_ms
from toolchain.reports.figures import INK, ROWS, SERIES, Figure, linear, rows_px
from toolchain.reports.page import render
from toolchain.rollouts.course import outcomes_of
from toolchain.rollouts.journal import beginning

# The plots of a rollout's page.

_WORKING, _OTHER = SERIES[0], SERIES[1]


def boards_by_state(counts: Mapping[str, Sequence[int]], working: frozenset[str]) -> str:
    """Plot how many boards of each phase ended in each state.

    Parameters
    ----------
    counts
        State -> number of boards in each phase.
    working
        States of boards that run the release; they get one colour, all others another.
    """
    phases = max(len(boards) for boards in counts.values())
    totals = {state: sum(of_phases) for state, of_phases in counts.items()}
    most = max(totals.values())
    height_px, tops = rows_px(len(counts))
    figure = Figure(
        "boards",
        "Number of boards in each state",
        "; ".join(f"{state}: {counted(total, 'board')}" for state, total in totals.items()),
        height_px,
        behind=len(str(most)),
    )
    below = "boards" if phases == 1 else "boards; the paler, the later the phase"
    plot = figure.plot(linear(0, most or 1, integers=True), ROWS, below)
    for top, (state, of_phases) in zip(tops, counts.items(), strict=True):
        plot.row(top, state)
        left = 0
        for phase, count in enumerate(of_phases):
            shade = 1.0 - 0.6 * phase / max(1, phases - 1)
            plot.bar(top, (left, left + count), _WORKING if state in working else _OTHER, shade)
            left += count
        plot.behind(top, left, str(left))
    return figure.html()


def latency_boxes(phases: Sequence[Sequence[float]], lab_ms: float | None) -> str:
    """Plot the self-tests' median latencies of each phase's boards, beside the lab's.

    Parameters
    ----------
    phases
        Milliseconds of each board, for each phase; phases without any are left out.
    """
    drawn = [(number, np.asarray(times)) for number, times in enumerate(phases, 1) if len(times)]
    names = [f"phase {number} ({len(times)})" for number, times in drawn]
    height_px, tops = rows_px(len(drawn))
    figure = Figure(
        "field",
        "Latency of the boards of each phase beside the lab's",
        "; ".join(
            f"{name}: median {shown_ms(float(np.median(times)))}"
            for name, (_, times) in zip(names, drawn, strict=True)
        ),
        height_px,
    )
    longest = max(lab_ms or 0.0, *(float(times.max()) for _, times in drawn))
    across = linear(0, 1.05 * longest or 1)
    plot = figure.plot(across, ROWS, "median latency of a board's self-test [ms]")
    for top, name, (_, times) in zip(tops, names, drawn, strict=True):
        first, middle, third = (float(value) for value in np.percentile(times, (25, 50, 75)))
        reach = 1.5 * (third - first)
        inside = times[(times >= first - reach) & (times <= third + reach)]
        whiskers = float(inside.min()), float(inside.max())
        beyond = [float(value) for value in times if not whiskers[0] <= value <= whiskers[1]]
        plot.row(top, name).box(top, (whiskers[0], first, middle, third, whiskers[1]), beyond)
    if lab_ms is not None:
        plot.line((lab_ms, 0), (lab_ms, 1))
        figure.explain("dashed", INK, f"the lab's {shown_ms(lab_ms)}")
    return figure.html()


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
    began, outcomes = beginning(events), outcomes_of(events)
    skipped = BoardOutcome(state="skipped", error="the rollout has not reached it")
    phases = [[(name, outcomes.get(name, skipped)) for name in names] for names in began.phases]
    latencies = [[o.test.latency_us / 1e3 for _, o in phase if o.test and o.works] for phase in phases]
    lab = began.lab
    lab_ms = lab.latency_us / 1e3 if lab and lab.latency_us else None
    causes = Counter(_cause(o) for phase in phases for _, o in phase if not o.works)
    last = events[-1]
    return render(
        "rollout.html.j2",
        began=began,
        when=_time(began.at),
        seconds=last.at - began.at,
        ended=last if isinstance(last, RolloutEnded) else None,
        working=sum(o.works for phase in phases for _, o in phase),
        boards=[(number, name, o) for number, phase in enumerate(phases, 1) for name, o in phase],
        sent=sum(o.bytes_sent for phase in phases for _, o in phase),
        phases=_phases(events, began, outcomes),
        causes=causes.most_common(),
        lab_ms=lab_ms,
        by_state=boards_by_state(_counts(phases), WORKS),
        boxes=latency_boxes(latencies, lab_ms) if any(latencies) else "",
    )


def _counts(phases: Sequence[Sequence[tuple[str, BoardOutcome]]]) -> dict[str, list[int]]:
    states = Counter(outcome.state for phase in phases for _, outcome in phase)
    return {
        state: [sum(outcome.state == state for _, outcome in phase) for phase in phases]
        for state, _ in states.most_common()
    }


def _phases(
    events: Sequence[JournalEvent], began: RolloutBegan, outcomes: dict[str, BoardOutcome]
) -> list[PhaseRow]:
    starts = {event.phase: event.at for event in reversed(events) if isinstance(event, PhaseStarted)}
    gates = {event.phase: event for event in events if isinstance(event, GateJudged)}
    return [
        PhaseRow(
            number,
            _time(starts[number]) if number in starts else "not begun",
            len(names),
            sum(name in outcomes and outcomes[name].works for name in names),
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

"""Prints the plan of a tuning run, and its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolchain.cli.output import table
from toolchain.quantities import counted, shown_flops, shown_ms

if TYPE_CHECKING:
    from toolchain.tuning.result import TuneResult
    from toolchain.tuning.run.plan import RunPlan


def show_plan(plan: RunPlan) -> None:
    """Print the plan of a run."""
    table(
        ["ID", "WEIGHT", "WORK", "WAYS", "MEASURED", "NAME"],
        [
            (
                planned.task.id,
                planned.task.weight,
                shown_flops(planned.task.flops),
                "no end" if planned.size is None else planned.size,
                planned.measured,
                planned.task.name,
            )
            for planned in plan.tasks
        ],
    )
    about = "at most" if plan.pace.most else "about"
    click.echo(
        f"{counted(plan.trials, 'trial')} of {counted(len(plan.tasks), 'task')} {plan.where}: "
        f"{about} {duration(plan.seconds)} ({_reason(plan)})"
    )
    click.echo("nothing was measured")


def _reason(plan: RunPlan) -> str:
    if plan.limit_s is not None and plan.seconds == plan.limit_s:
        return "the limit of --time"
    return plan.pace.reason if plan.pace.most else f"an estimate: {plan.pace.reason}"


def show_result(result: TuneResult) -> None:
    """Print the results of a run."""
    table(
        ["ID", "TRIALS", "FAILED", "DEFAULT", "CHOSEN", "CHOICE", "NAME"],
        [
            (
                tuned.task.id,
                tuned.trials,
                tuned.failed,
                shown_ms(tuned.default_ms),
                shown_ms(tuned.best_ms),
                tuned.won,
                tuned.task.name,
            )
            for tuned in result.tasks
        ],
    )
    document = result.to_json()
    if len(result.boards) > 1:
        click.echo(
            "trials by board: " + ", ".join(f"{name} {count}" for name, count in result.boards.items())
        )
    if result.power_cycles:
        click.echo(
            "power-cycled: " + ", ".join(f"{name} {count}" for name, count in result.power_cycles.items())
        )
    click.echo(
        f"{counted(result.trials, 'trial')}, {document['failed']} failed, in {document['seconds']} s "
        f"(loading the network not counted); these tasks: {shown_ms(result.untuned_ms)} -> "
        f"{shown_ms(result.tuned_ms)} per inference"
    )
    if result.beside_others:
        click.echo(
            f"warning: other processes computed on the device during {result.beside_others} of these trials, "
            "which may have taken longer by it"
        )
    if any(tuned.modelled for tuned in result.tasks):
        click.echo("these times come from a model: nothing was measured")
    else:
        click.echo(
            "a sample is of calls in a row, after one that is not timed; no cache is flushed in between"
        )
    if result.network is not None:
        click.echo(
            "DEFAULT, CHOSEN: time of a call within the network; the search measures tasks alone, with "
            "warmer caches"
        )
        click.echo(result.verdict.text)


def duration(seconds: float) -> str:
    """Return a time as text, such as `1 h 5 min`."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"

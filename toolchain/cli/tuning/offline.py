"""Runs `tune --export` with its progress, and prints what was written."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from toolchain.api.records import open_records
from toolchain.cli.output import emit, note, table
from toolchain.cli.progress import event_log
from toolchain.cli.tuning.progress import tuning_progress
from toolchain.quantities import counted
from toolchain.tuning.offline.export import PROGRAM, Exported, export

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.models.load import Model
    from toolchain.tasks.backend import Backend
    from toolchain.tuning.options import TuneOptions


def export_candidates(
    model: Model, backend: Backend[Any], board: Board, options: TuneOptions, folder: Path, most: int
) -> None:
    """Export the candidates of a model, and print the result."""
    with (
        open_records(note) as store,
        event_log("tune", f"{model.source}, exported") as log,
        tuning_progress(log) as listener,
    ):
        exported = export(model, backend, board, store, options, folder, most, listener)
    emit(exported.to_json(), lambda: show_exported(exported))


def show_exported(exported: Exported) -> None:
    """Print what is in an exported folder, what is not, and what to type next."""
    if exported.left_out:
        rows = [(each.task, each.point[:12] or "all", each.reason) for each in exported.left_out]
        table(["TASK", "NOT EXPORTED", "WHY"], rows)
    click.echo(
        f"{exported.folder}: {counted(exported.candidates, 'candidate')} of "
        f"{counted(exported.tasks, 'task')}, "
        f"{exported.bytes / 2**20:.1f} MiB; {exported.refused} more did not compile, "
        f"{counted(len(exported.left_out), 'was', 'were')} left out"
    )
    click.echo(
        f"{exported.checked} of them compute every case of their task, the others the first; caches are not "
        "flushed between the calls of a sample"
    )
    name = quote(exported.folder.name)
    click.echo(
        f"copy {name} to the board, type there: {name}/{PROGRAM} measure {name}; copy it back, and type here "
        "the same command with --import in place of --export"
    )

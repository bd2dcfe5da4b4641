"""`toolchain tasks`: what there is to tune."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolchain.cli.model_options import model_argument, model_options
from toolchain.cli.options import board_name, board_option, cluster_option, device_option
from toolchain.cli.output import emit, output_options, table

if TYPE_CHECKING:
    from toolchain.models.options import ModelOptions


@click.command()
@model_argument
@board_option("The board or board class to tune for.")
@cluster_option
@device_option
@click.option("--show", metavar="ID", help="Print the TensorIR of one task.")
@model_options
@output_options
def command(
    model: str,
    board: str | None,
    cluster: str | None,
    device: str,
    show: str | None,
    options: ModelOptions,
) -> None:
    """List the tunable tasks of a network, the heaviest first."""
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.lowering.tasks import tasks_for, tasks_named
    from toolchain.models.load import load_model

    target = find_target(board_name(board))
    target.profile.device(device)
    tasks = tasks_for(load_model(model, options), target.profile, cluster)
    if show is not None:
        task = tasks_named(tasks, [show], "--show")[0]
        emit({**task.to_json(), "tensorir": task.func.script()}, lambda: click.echo(task.func.script()))
        return
    emit(
        [task.to_json() for task in tasks],
        lambda: table(
            ["ID", "WEIGHT", "MFLOP", "NAME", "SHAPES"],
            [
                (
                    task.id,
                    task.weight,
                    f"{task.flops / 1e6:.1f}",
                    task.name,
                    " ".join("x".join(map(str, shape)) for shape in task.shapes),
                )
                for task in tasks
            ],
        ),
    )

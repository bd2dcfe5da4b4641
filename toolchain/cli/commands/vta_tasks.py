"""`toolchain vta tasks`: the convolutions of a network that a VTA computes."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

import click

from toolchain.cli import complete
from toolchain.cli.model_options import model_argument, vta_options
from toolchain.cli.output import emit, output_options, table

if TYPE_CHECKING:
    from toolchain.models.options import ModelOptions
    from toolchain.tasks.options import CodeOptions


@click.command("tasks")
@model_argument
@click.option(
    "--board", default="pynq", show_default=True, shell_complete=complete.boards, help="Board with the VTA."
)
@vta_options
@output_options
def tasks_(model: str, board: str, options: ModelOptions, code: CodeOptions) -> None:
    """List a network's convolutions that a VTA computes, as shapes: N,H,W,IC,OC,KH,KW,PH,PW,SH,SW."""
    from toolchain.backends.table import backend_for
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.models.load import load_model
    from toolchain.vta.layers.layer import shape_of

    backend = backend_for(find_target(board).profile, code)
    with backend.lower(load_model(model, options), backend.target()) as network:
        counted = [(shape_of(task.definition), task.weight) for task in network.tasks]
    counted.sort(key=lambda each: (-each[0].h * each[0].w, each[0].sh * each[0].sw, each[0].taps, each[0].ic))
    rows = [{"shape": list(astuple(shape)), "count": count} for shape, count in counted]
    emit(rows, lambda: table(["CONVOLUTION", "COUNT"], [(str(shape), count) for shape, count in counted]))

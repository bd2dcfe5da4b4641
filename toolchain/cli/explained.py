"""Prints the kernels of a task as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toolchain.cli.output import note, table

if TYPE_CHECKING:
    from toolchain.building.explain import Explained
    from toolchain.devices.kernel import Extents
    from toolchain.devices.model import KernelModel


def show_explained(chosen: str, explained: Sequence[Explained], model: KernelModel | None) -> None:
    """Print the resources that a task's kernels need on a device.

    Parameters
    ----------
    chosen
        Line that names the task's code; printed first.
    model
        A model of the device, whose times and counters become further columns; None: there is no model.
    """
    from toolchain.building.explain import modelled_ms

    columns = ["KERNEL", "GROUP", "GROUPS", "VECTOR", "PRIVATE B", "BARRIERS"]
    if model:
        columns += model.columns
    click.echo(chosen)
    table(columns, [_row(each) for each in explained])
    if model is None:
        return
    total = modelled_ms(explained)
    if total is not None:
        click.echo(f"{total:.3f} ms by the model")
    for each in explained:
        if each.modelled and each.modelled.problem:
            note(f"warning: {each.modelled.problem}")
    if model.half_note and any(each.kernel.computes_half for each in explained):
        note(f"warning: {model.half_note}")
    note(model.note)


def _row(each: Explained) -> tuple[object, ...]:
    kernel, modelled = each.kernel, each.modelled
    own = (
        kernel.name,
        _extents(kernel.group),
        _extents(kernel.groups),
        kernel.vector_width,
        kernel.private_bytes,
        kernel.barriers,
    )
    return own if modelled is None else (*own, *modelled.cells())


def _extents(extents: Extents) -> str:
    return "x".join(map(str, extents))

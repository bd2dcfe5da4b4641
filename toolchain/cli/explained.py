"""Prints the kernels of a task as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toolchain.cli.output import note, table
from toolchain.quantities import shown_ms

if TYPE_CHECKING:
    from toolchain.building.explain import Explained
    from toolchain.devices.kernel import Extents, Resources
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
    if any(each.kernel.resources for each in explained):
        columns += ["REGISTERS", "SPILLED B", "STACK B", "LOCAL B"]
    if model:
        columns += model.columns
    click.echo(chosen)
    table(columns, [_row(each) for each in explained])
    if model is None:
        return
    total = modelled_ms(explained)
    if total is not None:
        click.echo(f"{shown_ms(total)} by the model")
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
        *(_each(values) for values in zip(*map(_needed, kernel.resources), strict=True)),
    )
    return own if modelled is None else (*own, *modelled.cells())


def _needed(resources: Resources) -> tuple[int, ...]:
    return resources.registers, resources.spilled_bytes, resources.stack_bytes, resources.local_bytes


def _each(values: tuple[int, ...]) -> str:
    """Return a number for each architecture, or one number if they are equal."""
    return "/".join(map(str, values if len(set(values)) > 1 else values[:1]))


def _extents(extents: Extents) -> str:
    return "x".join(map(str, extents))

"""Kernels of a task as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toolchain.cli.output import note, table

if TYPE_CHECKING:
    from toolchain.building.explain import Explained
    from toolchain.devices.kernel import Extents

_OF_MODEL = (
    "times are a model's: Mesa's compiler for the Mali-T860, and how many words its pipes take; "
    "nothing of it was measured"
)


def show_explained(chosen: str, explained: Sequence[Explained], by_model: bool) -> None:
    """Print what a task's kernels ask of a device; with the model's columns where it was asked."""
    from toolchain.building.explain import modelled_ms

    columns = ["KERNEL", "GROUP", "GROUPS", "VECTOR", "PRIVATE B", "BARRIERS"]
    if by_model:
        columns += ["REGISTERS", "SPILLS:FILLS", "ARITHMETIC", "LOAD/STORE", "TEXTURE", "MODEL MS"]
    click.echo(chosen)
    table(columns, [_row(each) for each in explained])
    if not by_model:
        return
    total = modelled_ms(explained)
    if total is not None:
        click.echo(f"{total:.3f} ms by the model")
    for each in explained:
        if each.modelled and each.modelled.problem:
            note(f"warning: {each.modelled.problem}")
    if any(each.kernel.computes_half for each in explained):
        note("warning: of float16 the model's times are too long: Mesa uses half of the GPU's lanes for it")
    note(_OF_MODEL)


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
    if modelled is None:
        return own
    compiled, time = modelled.compiled, modelled.estimate
    of_compiler = (compiled.registers, f"{compiled.spills}:{compiled.fills}") if compiled else ("-", "-")
    words = (
        [f"{each:.0f}" for each in (time.arithmetic, time.load_store, time.texture)] if time else ["-"] * 3
    )
    ms = f"{time.ms:.3f}" if time else "-"
    return (*own, *of_compiler, *words, ms)


def _extents(extents: Extents) -> str:
    return "x".join(map(str, extents))

"""Prints the accuracy loss of a network in integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolchain.cli.output import is_verbose, note, table
from toolchain.quantities import counted

if TYPE_CHECKING:
    from toolchain.models.quantising.result import Quantised


_NAMED = 3
"""Number of layers to name among those that stay in floats for the same reason."""


def show_quantised(quantised: Quantised) -> None:
    """Print which layers became integers and the accuracy loss; with -v, each layer."""
    cost = quantised.cost
    for warning in cost.warnings():
        note(f"warning: {warning}")
    if is_verbose():
        rows = [(f"{each.sqnr_db:.1f}", f"{each.clipped:.2%}", each.name) for each in cost.layers]
        table(["SQNR DB", "CLIPPED", "LAYER"], rows)
    agreement = "".join(
        f", {name} agrees in {share:.0%}"
        for name, share in (("top-1", cost.top1), ("top-5", cost.top5))
        if share is not None
    )
    integers = ", ".join(counted(number, kind) for kind, number in quantised.counts.items())
    worst = f" ({cost.part})" if cost.part else ""
    images = f"{cost.images} {'random inputs' if cost.random else 'images'}"
    click.echo(f"scales: {cost.quantizer}, calibrated with {images}")
    click.echo(f"integers: {integers}; output SQNR {cost.sqnr_db:.1f} dB{worst}{agreement}, over {images}")
    named: dict[str, list[str]] = {}
    for name, reason in quantised.left.items():
        named.setdefault(reason, []).append(name)
    for reason, names in named.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        click.echo(f"in floats: {', '.join(names[:_NAMED])}{more}: {reason}")

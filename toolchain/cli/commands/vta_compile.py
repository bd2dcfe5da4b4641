"""`toolchain vta compile`: a convolution as a program, with the memory that it works in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolchain.cli import complete
from toolchain.cli.output import emit, output_options

if TYPE_CHECKING:
    from toolchain.vta.compiling import Compiled


@click.command("compile")
@click.option("--conv", metavar="N,H,W,IC,OC,KH,KW,PH,PW,SH,SW", required=True, help="Its shape.")
@click.option(
    "--knobs",
    metavar="K=V,…",
    help="How it is cut: tile_h, tile_w, tile_ci and tile_co (in blocks of channels), oc_nthread, h_nthread; "
    "default: what an estimate likes best.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Of weights and inputs.")
@click.option("--residual", is_flag=True, help="Add a second input to the sums.")
@click.option(
    "--config",
    metavar="NAME|FILE",
    default="pynq",
    shell_complete=complete.vta_configs,
    help="Of the design; default: pynq.",
)
@click.option(
    "--dump",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where to write insn.bin, dram.bin, expected.bin and layout.json.",
)
@output_options
def compile_(conv: str, knobs: str | None, seed: int, residual: bool, config: str, folder: Path) -> None:
    """Compile a convolution, with values from a seed, and write what any VTA can run.

    expected.bin is the memory after a run by whole numbers in numpy, not by a simulator.
    """
    from toolchain.vta.compiling import compile_convolution
    from toolchain.vta.knobs import read_knobs
    from toolchain.vta.layers import read_shape
    from toolchain.vta.layout import layout_of, write_dump
    from toolchain.vta.reading import find_config

    cut = read_knobs(knobs) if knobs is not None else None
    compiled = compile_convolution(read_shape(conv), find_config(config), cut, seed, residual)
    write_dump(folder, compiled.dump)
    document = {
        **layout_of(compiled.dump),
        "folder": str(folder.absolute()),
        "knobs": compiled.knobs.decisions(),
        "estimated_cycles": compiled.estimated_cycles,
    }
    emit(document, lambda: _tell_compiled(compiled, folder, document["insn_count"]))


def _tell_compiled(compiled: Compiled, folder: Path, instructions: int) -> None:
    from toolchain.foreign import printable

    cycles, memory = compiled.estimated_cycles, len(compiled.dump.before)
    click.echo(f"{instructions} instructions, {memory / 2**20:.1f} MiB of memory: {printable(str(folder))}")
    milliseconds = compiled.dump.config.cycles.milliseconds(cycles)
    click.echo(f"cut by {compiled.knobs}")
    click.echo(f"about {cycles} cycles, {milliseconds:.2f} ms: an estimate, of no board")

"""`toolchain vta compile`: programs for a convolution or for a network's regions, with their memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.model_options import vta_options
from toolchain.cli.output import emit, output_options, table
from toolchain.errors import UsageError
from toolchain.quantities import shown_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolchain.models.options import ModelOptions
    from toolchain.tasks.options import CodeOptions
    from toolchain.vta.design import VtaConfig
    from toolchain.vta.dumps.convolution import CompiledConvolution

_EXAMPLE = "1,56,56,64,64,3,3,1,1,1,1"


@click.command("compile")
@click.option("--conv", metavar="N,H,W,IC,OC,KH,KW,PH,PW,SH,SW", help="A convolution's shape.")
@click.option(
    "--model", metavar="MODEL", shell_complete=complete.models, help="Or a network: each region is a program."
)
@click.option(
    "--knobs",
    metavar="K=V,…",
    help="With --conv, its tiling: tile_h, tile_w, tile_ci and tile_co (in blocks of channels), "
    "oc_nthread, h_nthread; default: the fastest by an estimate.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Seed of inputs, and of --conv's weights."
)
@click.option("--residual", is_flag=True, help="With --conv: add a second input to the sums.")
@click.option(
    "--config",
    metavar="NAME|FILE",
    default="pynq",
    shell_complete=complete.vta_configs,
    help="Configuration of the design; default: pynq.",
)
@click.option(
    "--dump",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for insn.bin, dram.bin, expected.bin and layout.json.",
)
@vta_options
@output_options
def compile_(
    conv: str | None,
    model: str | None,
    knobs: str | None,
    seed: int,
    residual: bool,
    config: str,
    folder: Path,
    options: ModelOptions,
    code: CodeOptions,
) -> None:
    """Compile a convolution with seeded values, or a network's regions, to programs that any VTA can run.

    expected.bin is the memory after the program, computed with integers in numpy, not in a simulator. Each
    region of a network with several gets a folder in DIR.
    """
    from toolchain.vta.config_file import find_config

    if conv is not None and model is not None:
        raise UsageError("--conv and --model exclude each other", "leave one of them out")
    if conv is None and model is None:
        raise UsageError("what is to be compiled?", f"one of --conv {_EXAMPLE} and --model zoo:resnet-18")
    design = find_config(config)
    if model is not None:
        if knobs or residual:
            raise UsageError(
                f"--{'knobs' if knobs else 'residual'}: of one convolution", "use it with --conv"
            )
        _compile_model(model, options, code, design, seed, folder)
        return
    from toolchain.vta.dumps.convolution import compile_convolution
    from toolchain.vta.dumps.dump import layout_of, write_dump
    from toolchain.vta.layers.layer import read_shape
    from toolchain.vta.layers.region import read_knobs

    cut = read_knobs(knobs) if knobs is not None else None
    compiled = compile_convolution(read_shape(conv or ""), design, cut, seed, residual)
    write_dump(folder, compiled.dump)
    document = {
        **layout_of(compiled.dump),
        "folder": str(folder.absolute()),
        "knobs": compiled.knobs.decisions(),
        "estimated_cycles": compiled.estimated_cycles,
    }
    emit(document, lambda: _tell_compiled(compiled, folder, document["insn_count"]))


def _compile_model(
    source: str, options: ModelOptions, code: CodeOptions, design: VtaConfig, seed: int, folder: Path
) -> None:
    from toolchain.backends.table import vta_regions
    from toolchain.models.load import load_model
    from toolchain.vta.dumps.convolution import compile_region
    from toolchain.vta.dumps.dump import layout_of, write_dump

    regions = vta_regions(load_model(source, options), code)
    written = []
    for number, region in enumerate(regions):
        into = folder / f"region-{number}" if len(regions) > 1 else folder
        dump = compile_region(region, design, seed)
        write_dump(into, dump)
        written.append({**layout_of(dump), "folder": str(into.absolute()), "layers": len(region.layers)})
    emit(
        written, lambda: table(["INSTRUCTIONS", "MIB", "LAYERS", "FOLDER"], [_row(each) for each in written])
    )


def _row(written: Mapping[str, Any]) -> tuple[object, ...]:
    memory = f"{written['arena_bytes'] / 2**20:.1f}"
    return written["insn_count"], memory, written["layers"], written["folder"]


def _tell_compiled(compiled: CompiledConvolution, folder: Path, instructions: int) -> None:
    from toolchain.foreign import printable

    cycles, memory = compiled.estimated_cycles, len(compiled.dump.before)
    click.echo(f"{instructions} instructions, {memory / 2**20:.1f} MiB of memory: {printable(str(folder))}")
    milliseconds = compiled.dump.config.cycles.milliseconds(cycles)
    click.echo(f"cut by {compiled.knobs}")
    click.echo(f"about {cycles} cycles, {shown_ms(milliseconds)}: an estimate, not measured")

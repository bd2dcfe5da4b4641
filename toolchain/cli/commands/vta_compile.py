"""`toolchain vta tasks` and `vta compile`: convolutions for a VTA, and programs that compute them."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.model_options import model_argument, vta_options
from toolchain.cli.options import gathered
from toolchain.cli.output import emit, output_options, table
from toolchain.errors import UsageError
from toolchain.quantities import shown_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolchain.models.options import ModelOptions
    from toolchain.tasks.options import CodeOptions
    from toolchain.vta.design import VtaConfig
    from toolchain.vta.dumps.convolution import CompiledConvolution


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
    counted.sort(key=lambda pair: (-pair[0].h * pair[0].w, pair[0].sh * pair[0].sw, pair[0].taps, pair[0].ic))
    rows = [{"shape": list(astuple(shape)), "count": count} for shape, count in counted]
    emit(rows, lambda: table(["CONVOLUTION", "COUNT"], [(str(shape), count) for shape, count in counted]))


_EXAMPLE = "1,56,56,64,64,3,3,1,1,1,1"


@dataclass(frozen=True)
class SeededConvolution:
    """The convolution to compile instead of a network.

    Attributes
    ----------
    conv
        Its shape as typed; None: a network is compiled.
    knobs
        Its tiling as typed; None: the fastest by an estimate.
    seed
        Seed of its values; of a network, those of its inputs.
    residual
        Whether a second input is added to the sums.
    """

    conv: str | None
    knobs: str | None
    seed: int
    residual: bool


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
@gathered("convolution", SeededConvolution)
def compile_(
    convolution: SeededConvolution,
    model: str | None,
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

    if convolution.conv is not None and model is not None:
        raise UsageError("--conv and --model exclude each other", "leave one of them out")
    if convolution.conv is None and model is None:
        raise UsageError("what is to be compiled?", f"one of --conv {_EXAMPLE} and --model zoo:resnet-18")
    design = find_config(config)
    if model is not None:
        if convolution.knobs or convolution.residual:
            option = "knobs" if convolution.knobs else "residual"
            raise UsageError(f"--{option}: of one convolution", "use it with --conv")
        _compile_model(model, options, code, design, convolution.seed, folder)
        return
    from toolchain.vta.dumps.convolution import compile_convolution
    from toolchain.vta.dumps.dump import layout_of, write_dump
    from toolchain.vta.layers.layer import read_shape
    from toolchain.vta.layers.region import read_knobs

    knobs = None if convolution.knobs is None else read_knobs(convolution.knobs)
    shape = read_shape(convolution.conv or "")
    compiled = compile_convolution(shape, design, knobs, convolution.seed, convolution.residual)
    write_dump(folder, compiled.dump)
    document = {
        **layout_of(compiled.dump),
        "folder": str(folder.absolute()),
        "knobs": compiled.knobs.decisions(),
        "estimated_cycles": compiled.estimated_cycles,
    }
    emit(document, lambda: _print_compiled(compiled, folder, document["insn_count"]))


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
        written,
        lambda: table(["INSTRUCTIONS", "MIB", "LAYERS", "FOLDER"], [_row(entry) for entry in written]),
    )


def _row(written: Mapping[str, Any]) -> tuple[object, ...]:
    memory = f"{written['arena_bytes'] / 2**20:.1f}"
    return written["insn_count"], memory, written["layers"], written["folder"]


def _print_compiled(compiled: CompiledConvolution, folder: Path, instructions: int) -> None:
    from toolchain.foreign import printable

    cycles, memory = compiled.estimated_cycles, len(compiled.dump.before)
    click.echo(f"{instructions} instructions, {memory / 2**20:.1f} MiB of memory: {printable(str(folder))}")
    milliseconds = compiled.dump.config.cycles.milliseconds(cycles)
    click.echo(f"cut by {compiled.knobs}")
    click.echo(f"about {cycles} cycles, {shown_ms(milliseconds)}: an estimate, not measured")

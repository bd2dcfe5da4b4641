"""`toolchain model`: the networks that can be compiled."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.model_options import graph_options, model_argument
from toolchain.cli.options import output_path
from toolchain.cli.output import emit, note, output_options, show_quantised, table
from toolchain.foreign import printable
from toolchain.quantities import counted, shown_flops

if TYPE_CHECKING:
    from toolchain.models.options import ModelOptions

NODES_SHOWN = 5


@click.group()
@output_options
def command() -> None:
    """List, inspect and export networks."""


@command.command("list")
@output_options
def list_models() -> None:
    """List the networks of the zoo."""
    from toolchain.models.zoo import ZOO

    networks = ZOO.values()

    def tell() -> None:
        table(
            ["MODEL", "NETWORK", "PARAMETERS", "WORK"],
            [(f"zoo:{n.name}", n.summary, f"{n.parameters:,}", shown_flops(2 * n.macs)) for n in networks],
        )

    rows = [
        {"name": f"zoo:{n.name}", "summary": n.summary, "parameters": n.parameters, "flops": 2 * n.macs}
        for n in networks
    ]
    emit(rows, tell)


@command.command()
@model_argument
@graph_options
@output_options
def inspect(model: str, options: ModelOptions) -> None:
    """Show a network's inputs, its operators, and the nodes that cannot be compiled."""
    note(f"reading {model}")
    from toolchain.models.inspect import inspect_model

    found = inspect_model(model, options)
    emit(found, lambda: _show(found))


def _show(found: dict[str, Any]) -> None:
    for kind in ("inputs", "outputs"):
        for tensor in found[kind]:
            click.echo(f"{kind[:-1]:<8}{printable(tensor['name'])} {tensor['shape']} {tensor['dtype']}")
    click.echo(f"{'sha256':<8}{found['sha256']}")
    unknown = "FLOPs unknown: shapes are open, or a loop is; give them with --shape or --batch"
    flops = unknown if found["flops"] is None else shown_flops(found["flops"])
    click.echo(f"{counted(found['parameters'], 'parameter', form=',')}, {flops}")
    counts = sorted(found["operators"].items(), key=lambda item: -item[1])
    table(["OPERATOR", "COUNT"], [(printable(operator), count) for operator, count in counts])
    for unsupported in found["unsupported"]:
        nodes = ", ".join(unsupported["nodes"])
        click.echo(printable(f"cannot be compiled: {unsupported['op']} in {nodes}"))
    for problem in found["data_dependent"]:
        said = f"cannot be compiled: {problem['op']} (node {problem['node']!r}) {problem['reason']}"
        click.echo(printable(said))
    if found["freeze"]:
        values = " ".join(f"--input-value {quote(name)}=V" for name in found["freeze"])
        click.echo(printable(f"can be compiled if these inputs never change: {values}"))
    if found["cut"]:
        from toolchain.models.preparing.prepare import outputs_option

        click.echo(printable(f"can be compiled up to these tensors: {outputs_option(found['cut'])}"))
    if found["refusal"] and not (found["unsupported"] or found["data_dependent"]):
        click.echo(printable(f"cannot be compiled: {found['refusal']['message']}"))
        if found["refusal"]["hint"]:
            click.echo(printable(f"hint: {found['refusal']['hint']}"))
    if found["open"]:
        _show_open(found)


def _show_open(found: dict[str, Any]) -> None:
    if undecided := [f"{each['op']} (node {each['node']!r})" for each in found["undecided"]]:
        more = f" and {len(undecided) - NODES_SHOWN} more" if len(undecided) > NODES_SHOWN else ""
        listed = ", ".join(undecided[:NODES_SHOWN]) + more
        click.echo(printable(f"not known before --shape: whether {listed} can be compiled"))
    given = " ".join(f"--shape {quote(text)}" for text in found["open"])
    numbers = " with numbers for D" if any("D" in text.rpartition("=")[2] for text in found["open"]) else ""
    click.echo(printable(f"shapes are open: give them to every command, such as {given}{numbers}"))


@command.command()
@model_argument
@graph_options
@output_path("FILE.onnx", "The file to write.")
@output_options
def export(model: str, options: ModelOptions, output: Path) -> None:
    """Write a network as ONNX, with the requested shapes.

    With --dtype int8 the file is in QDQ form, with which onnxruntime and others compute the same integers.
    """
    from toolchain.models.load import export_model

    quantised = export_model(model, options, output)

    def tell() -> None:
        if quantised:
            show_quantised(quantised)
        click.echo(f"wrote {output}")

    emit({"file": output.absolute(), "quantising": quantised.to_json() if quantised else None}, tell)

"""`toolchain model` and `toolchain tasks`: the networks that can be compiled, and their tunable tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.model_options import graph_options, model_argument, several_shapes
from toolchain.cli.options import (
    board_name,
    board_option,
    cluster_option,
    device_option,
    gathered,
    output_path,
)
from toolchain.cli.output import emit, note, output_options, show_quantised, table
from toolchain.devices.table import find_kind, kernel_kinds
from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.quantities import counted, shown_flops

if TYPE_CHECKING:
    from toolchain.models.options import ModelOptions
    from toolchain.tasks.options import CodeOptions
    from toolchain.tasks.task import Task


NODES_SHOWN = 5


@click.group()
@output_options
def model() -> None:
    """List, inspect and export networks."""


@model.command("list")
@output_options
def list_models() -> None:
    """List the networks of the zoo."""
    from toolchain.models.zoo import ZOO

    networks = ZOO.values()

    def print_text() -> None:
        table(
            ["MODEL", "NETWORK", "PARAMETERS", "WORK"],
            [(f"zoo:{n.name}", n.summary, f"{n.parameters:,}", shown_flops(2 * n.macs)) for n in networks],
        )

    rows = [
        {"name": f"zoo:{n.name}", "summary": n.summary, "parameters": n.parameters, "flops": 2 * n.macs}
        for n in networks
    ]
    emit(rows, print_text)


@model.command()
@model_argument
@graph_options
@output_options
def inspect(model: str, options: ModelOptions) -> None:
    """Show a network's inputs, its operators, and the nodes that cannot be compiled."""
    note(f"reading {model}")
    from toolchain.models.inspect import inspect_model

    inspection = inspect_model(model, options)
    emit(inspection, lambda: _show(inspection))


def _show(inspection: dict[str, Any]) -> None:
    for kind in ("inputs", "outputs"):
        for tensor in inspection[kind]:
            click.echo(f"{kind[:-1]:<8}{printable(tensor['name'])} {tensor['shape']} {tensor['dtype']}")
    click.echo(f"{'sha256':<8}{inspection['sha256']}")
    unknown = "FLOPs unknown: shapes are open, or a loop is; give them with --shape or --batch"
    flops = unknown if inspection["flops"] is None else shown_flops(inspection["flops"])
    click.echo(f"{counted(inspection['parameters'], 'parameter', form=',')}, {flops}")
    counts = sorted(inspection["operators"].items(), key=lambda item: -item[1])
    table(["OPERATOR", "COUNT"], [(printable(operator), count) for operator, count in counts])
    for unsupported in inspection["unsupported"]:
        nodes = ", ".join(unsupported["nodes"])
        click.echo(printable(f"cannot be compiled: {unsupported['op']} in {nodes}"))
    for problem in inspection["data_dependent"]:
        sentence = f"cannot be compiled: {problem['op']} (node {problem['node']!r}) {problem['reason']}"
        click.echo(printable(sentence))
    if inspection["freeze"]:
        values = " ".join(f"--input-value {quote(name)}=V" for name in inspection["freeze"])
        click.echo(printable(f"can be compiled if these inputs never change: {values}"))
    if inspection["cut"]:
        from toolchain.models.preparing.prepare import outputs_option

        click.echo(printable(f"can be compiled up to these tensors: {outputs_option(inspection['cut'])}"))
    if inspection["refusal"] and not (inspection["unsupported"] or inspection["data_dependent"]):
        click.echo(printable(f"cannot be compiled: {inspection['refusal']['message']}"))
        if inspection["refusal"]["hint"]:
            click.echo(printable(f"hint: {inspection['refusal']['hint']}"))
    if inspection["open"]:
        _show_open(inspection)


def _show_open(inspection: dict[str, Any]) -> None:
    if undecided := [f"{node['op']} (node {node['node']!r})" for node in inspection["undecided"]]:
        more = f" and {len(undecided) - NODES_SHOWN} more" if len(undecided) > NODES_SHOWN else ""
        listed = ", ".join(undecided[:NODES_SHOWN]) + more
        click.echo(printable(f"not known before --shape: whether {listed} can be compiled"))
    given = " ".join(f"--shape {quote(text)}" for text in inspection["open"])
    numbers = (
        " with numbers for D" if any("D" in text.rpartition("=")[2] for text in inspection["open"]) else ""
    )
    click.echo(printable(f"shapes are open: give them to every command, such as {given}{numbers}"))


@model.command()
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

    def print_text() -> None:
        if quantised:
            show_quantised(quantised)
        click.echo(f"wrote {output}")

    emit({"file": output.absolute(), "quantising": quantised.to_json() if quantised else None}, print_text)


class _Form(click.Choice[str]):
    """The form in which code is printed; a kind of device names the source of its kernels."""

    def __init__(self) -> None:
        super().__init__(["tir", *kernel_kinds(), "llvm", "assembly"])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the form; accept the kinds of plugins too."""
        row = find_kind(value)
        return value if row and row.language else super().convert(value, param, ctx)


@dataclass(frozen=True)
class TaskDetail:
    """The options that print one task instead of the list of all.

    Attributes
    ----------
    show, explain
        Id of the task, for its definition or code, or for the resources of its kernels.
    as_code
        Whether code is printed, in the form `form`.
    by_model
        Whether a model of the device predicts the times of the kernels.
    """

    show: str | None
    as_code: bool
    form: str
    explain: str | None
    by_model: bool

    @property
    def task(self) -> str | None:
        """Id of the task; None: all tasks are listed."""
        return self.show if self.explain is None else self.explain

    def check(self) -> None:
        """Refuse options that need another one, or exclude each other."""
        if self.as_code and self.show is None:
            raise UsageError("--code: of which task?", "add --show ID; `toolchain tasks MODEL` lists them")
        if self.by_model and self.explain is None:
            raise UsageError(
                "--model: of which task?", "add --explain ID; `toolchain tasks MODEL` lists them"
            )
        if self.show is not None and self.explain is not None:
            raise UsageError("--show and --explain cannot be used together", "ask one after the other")


@click.command()
@model_argument
@board_option("The board or board class to tune for.")
@cluster_option
@device_option
@click.option("--show", metavar="ID", help="Print the definition of one task.")
@click.option("--code", "as_code", is_flag=True, help="With --show: print the code that a build generates.")
@click.option(
    "--form",
    type=_Form(),
    default="tir",
    show_default=True,
    help="With --code: form to print; with --device opencl, llvm and assembly show the host code.",
)
@click.option("--explain", metavar="ID", help="Print the resources that the kernels of one task need.")
@click.option(
    "--model",
    "by_model",
    is_flag=True,
    help="With --explain: predict their times on a Mali-T860, with Mesa's compiler in the image mali-model.",
)
@several_shapes
@output_options
@gathered("detail", TaskDetail)
def tasks(
    model: str,
    board: str | None,
    cluster: str | None,
    detail: TaskDetail,
    options: ModelOptions,
    code: CodeOptions,
) -> None:
    """List the tunable tasks of a network, the heaviest first."""
    from toolchain.api.networks import list_tasks
    from toolchain.api.rates import with_chosen_rates
    from toolchain.api.records import open_records
    from toolchain.backends.table import backend_for
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.building.chosen import chosen
    from toolchain.cli.output import show_explained
    from toolchain.models.load import check_source
    from toolchain.models.multi_shape import load_shapes
    from toolchain.tasks.task import tasks_named

    detail.check()
    target = find_target(board_name(board))
    half_loaded = check_source(model, options)  # before cores are measured
    note(f"reading {model} and finding its tasks")
    if detail.as_code or detail.explain is not None:
        target = with_chosen_rates(target, code, note)
    backend = backend_for(target.profile, code)
    loaded = load_shapes(model, options, half_loaded)
    del half_loaded  # which holds the network's weights once more
    if detail.task is None:
        show_tasks(list_tasks(loaded, target, code, cluster=cluster))
        return
    with backend.lower(loaded, backend.target(cluster, integers=loaded.integral)) as network:
        option = "--show" if detail.explain is None else "--explain"
        (task,) = tasks_named(network.tasks, [detail.task], option)
        if detail.show is not None and not detail.as_code:
            listing = network.listing(task)
            emit({**task.to_json(), "tensorir": listing}, lambda: click.echo(listing))
            return
        with open_records(note) as store:
            choice = chosen(network, task, store, target.record_class)
        if detail.explain is not None:
            explained = choice.kernels(model=detail.by_model)
            emit(explained.to_json(), lambda: show_explained(str(choice), explained.kernels, explained.model))
            return
        text = choice.code(detail.form)
    emit({**choice.to_json(), "form": detail.form, "code": text}, lambda: click.echo(text))


def show_tasks(tasks: Sequence[Task]) -> None:
    """Print the tasks as a table or as JSON."""
    emit(
        [task.to_json() for task in tasks],
        lambda: table(
            ["ID", "WEIGHT", "WORK", "NAME", "SHAPES"],
            [
                (
                    task.id,
                    task.weight,
                    shown_flops(task.flops),
                    task.name,
                    " ".join("x".join(map(str, shape)) for shape in task.shapes),
                )
                for task in tasks
            ],
        ),
    )

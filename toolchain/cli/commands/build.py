"""`toolchain build`: compiles a network to a bundle."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from toolchain.cli.engine import container_for, files_of
from toolchain.cli.model_options import model_argument, several_shapes
from toolchain.cli.options import (
    board_name,
    board_option,
    cluster_option,
    device_option,
    engine_option,
    gathered,
    named_inputs,
)
from toolchain.cli.output import emit, is_verbose, note, output_options, show_quantised, table
from toolchain.cli.progress import event_log, step_logger, step_progress
from toolchain.errors import UsageError
from toolchain.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.building.build import BuildResult
    from toolchain.building.decide import Decision
    from toolchain.building.options import BuildOptions
    from toolchain.models.options import ModelOptions
    from toolchain.tasks.options import CodeOptions

_MOST_COPIES = 5  # functions that are named


def _build_options(
    code: CodeOptions,
    cluster: str | None,
    require_tuned: bool,
    no_shipped: bool,
    pad: bool,
    check: bool,
    linker: str,
    file_format: Literal["so", "tar"],
) -> BuildOptions:
    from toolchain.building.options import BuildOptions
    from toolchain.records.lookup import SHIPPED

    return BuildOptions(
        code=code,
        cluster=cluster,
        require_tuned=require_tuned,
        linker=linker,
        format=file_format,
        shipped=None if no_shipped else SHIPPED,
        check=check,
        pad=pad,
    )


@click.command()
@model_argument
@board_option("The board or board class to build for.")
@cluster_option
@device_option
@several_shapes
@click.option("--require-tuned", is_flag=True, help="Fail when a task has no record.")
@click.option("--no-shipped", is_flag=True, help="Ignore the records that come with this package.")
@click.option(
    "--pad",
    is_flag=True,
    help="With several shapes: let `run --pad` fill inputs up with zeros to the next shape. Fails if the "
    "reference computes something else then.",
)
@click.option(
    "--check", is_flag=True, help="Run the sample on this host first; write nothing if its result is wrong."
)
@named_inputs("--sample", "Data that `verify` runs, one for each input; default: seeded random data.")
@click.option(
    "--linker",
    type=click.Choice(["zig", "gcc", "ndk"]),
    default="zig",
    show_default=True,
    help="Linker of the library.",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["so", "tar"]),
    default="so",
    show_default=True,
    help="A library, or a tar of its objects.",
)
@engine_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="The folder for library and bundle.",
)
@output_options
@gathered("how", _build_options)
def build(
    model: str,
    board: str | None,
    options: ModelOptions,
    how: BuildOptions,
    inputs: tuple[str, ...],
    engine: str | None,
    output: Path,
) -> int | None:
    """Compile a network into a bundle for a board.

    Records of earlier tuning decide how tasks are computed, if they match. The output says for how many
    tasks; with -v, for which, and where the records come from.

    With --check the sample runs on this host, on the device that is built for, before anything is written.
    A wrong result exits with 4, like `verify`. For boards of other architectures use `verify`. The build then
    runs on this host, too; --engine docker is refused.
    """
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.models.load import check_source

    if how.check and engine == "docker":
        raise UsageError(
            "--check runs the sample on this host, and --engine docker builds in a container",
            "use --engine host; or build without --check, and `toolchain verify` the bundle",
        )
    find_target(board_name(board)).profile.device(how.code.device_kind)
    half_loaded = check_source(model, options)  # before cores are measured, and containers started

    from toolchain.api.rates import with_chosen_rates

    target = with_chosen_rates(find_target(board_name(board)), how.code, note)
    engine = "host" if how.check else engine
    if container := container_for(
        engine,
        target.profile,
        how.code.device_kind,
        files_of(model, inputs, options.value_files),
        [output],
        model=model,
    ):
        del half_loaded  # which holds the network's weights
        return container.run()

    from toolchain.api import networks
    from toolchain.measuring.arrays import read_inputs
    from toolchain.models.multi_shape import load_shapes

    loaded = load_shapes(model, options, half_loaded)
    del half_loaded  # which holds the network's weights once more
    sample = read_inputs(inputs, loaded.inputs, "--sample", shapes=not loaded.others) if inputs else None
    title = f"{model} for {board_name(board)}"
    with event_log("build", title) as log, step_progress() as progress:
        how = replace(how, sample=sample)
        result = networks.build(loaded, target, output, how, progress=step_logger(log, progress))
    emit(result.to_json(), lambda: show(result))
    return None


def show(result: BuildResult) -> None:
    """Print a summary of the build as text."""
    from toolchain.building.build import count

    everything = [*result.decisions, *result.beside]
    for decision in everything:
        if decision.warning:
            note(f"warning: task {decision.task.id} ({decision.task.name}): {decision.warning}")
    if is_verbose():
        _show_decisions(everything)
    tasks = count(result.decisions)
    hits = Counter(decision.source for decision in result.decisions if decision.tuned)
    how = ", ".join(f"{number} {source}" for source, number in hits.items()) or "none"
    click.echo(f"tasks: {tasks['total']} total, {tasks['tuned']} with a record, {tasks['improved']} improved")
    click.echo(f"records: {how}; {counted(tasks['total'] - tasks['tuned'], 'task')} without one")
    rules = Counter(decision.rule for decision in result.decisions)
    click.echo("code: " + ", ".join(f"{number} {rule}" for rule, number in rules.most_common()))
    if result.beside:
        beside = count(result.beside)
        click.echo(
            f"in addition, on the CPU: {counted(beside['total'], 'task')}, {beside['tuned']} with a record, "
            f"{beside['improved']} improved"
        )
    device = f", {result.target.device}" if result.target.device else ""
    if result.target.architectures:
        device += f" for {', '.join(result.target.architectures)}"
    if result.quantised:
        show_quantised(result.quantised)
    click.echo(f"sample: {result.reference}")
    click.echo(f"reference: onnxruntime on {result.reference.computed_from}")
    if result.checked:
        click.echo(f"checked: right on this host ({result.checked.place['ran_on']})")
    click.echo(f"target: {result.target.triple}, {result.target.cpu}{device}")
    if len(result.shapes) > 1:
        _show_shapes(result)
    if result.size.text:
        click.echo(f"size: {result.size.text}")
    click.echo(f"library: {result.library}\nbundle: {result.bundle}")


def _show_shapes(result: BuildResult) -> None:
    """Print the shapes, and which constants they do not share."""
    click.echo(f"shapes: {'; '.join(reversed(result.shapes))}")
    copied = sorted(result.copied.items(), key=lambda item: (-item[1], item[0]))
    if not copied:
        click.echo("weights: stored once for all shapes")
        return
    total = sum(size for _name, size in copied)
    most = ", ".join(f"{name} {counted(size, 'byte', form=',')}" for name, size in copied[:_MOST_COPIES])
    rest = f", and {len(copied) - _MOST_COPIES} more" if len(copied) > _MOST_COPIES else ""
    click.echo(
        f"weights: stored once but for {total:,} bytes, which smaller shapes have in another order or of "
        f"their own: {most}{rest}"
    )


def _show_decisions(decisions: Sequence[Decision[Any]]) -> None:
    """Print the record of each task."""
    rows = []
    for decision in decisions:
        record = decision.to_json()
        ms = "" if record["ms"] is None else f"{record['ms']:.3f}"
        where = (record["board"], record["cpu"], record["level"], record["threads"])
        rows.append(
            (decision.task.id, decision.source or "none", *where, ms, decision.rule, decision.task.name)
        )
    table(["TASK", "RECORD", "BOARD", "CPU", "LEVEL", "THREADS", "MS", "CODE", "NAME"], rows)

"""The output of commands: one JSON document, or tables and lines for people."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

import click

from toolchain.cli import terminal
from toolchain.foreign import printable
from toolchain.quantities import counted, shown_ms

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.building.chosen import Explained
    from toolchain.bundles.read import Bundle
    from toolchain.devices.kernel import Extents, KernelModel, Resources
    from toolchain.models.quantising.result import Quantised


_JSON = "toolchain.json"
_VERBOSE = "toolchain.verbose"

Function = TypeVar("Function", bound=Callable[..., Any])


def output_options(function: Function) -> Function:
    """Add `--json` and `-v`, which every command takes."""
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_set_verbose,
        help="Log to stderr; twice for more. Also shows the traceback of a bug.",
    )
    as_json = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_set_json,
        help="Print one JSON document on stdout.",
    )
    return as_json(verbose(function))


def _set_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_JSON] = value or context.meta.get(_JSON, False)


def _set_verbose(context: click.Context, _: click.Parameter, value: int) -> None:
    context.meta[_VERBOSE] = level = value + context.meta.get(_VERBOSE, 0)
    if level and not context.resilient_parsing:
        import logging

        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger().setLevel(logging.INFO if level == 1 else logging.DEBUG)


def is_verbose() -> bool:
    """Return whether the running command has `-v`."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(_VERBOSE))


def wants_json() -> bool:
    """Return whether the running command has `--json`."""
    return bool(click.get_current_context().meta.get(_JSON))


def emit(document: Any, print_text: Callable[[], None]) -> None:
    """Print `document` as JSON if `--json` was given, else call `print_text`."""
    if wants_json():
        print_json(document)
    else:
        print_text()


_document_stream: TextIO | None = None


@contextmanager
def keep_stdout_for_the_document() -> Iterator[None]:
    """Reserve standard output for `print_json`; redirect everything else printed there to stderr.

    Libraries and child processes print where they like; with `--json` stdout must have one document alone.
    """
    global _document_stream
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as _document_stream:
            yield
    finally:
        _document_stream = None
        with suppress(OSError):  # an error of stderr, where the rest went
            sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def stdout() -> TextIO:
    """Return standard output, or the stream reserved for the JSON document."""
    return _document_stream or sys.stdout


def print_json(document: Any) -> None:
    """Write `document` to stdout as ASCII JSON, texts unchanged, NaN and infinity as null.

    Raises
    ------
    StdoutError
        Standard output cannot be written.
    """
    _write([_json(document), "\n"])


def print_json_list(items: Iterable[Any]) -> None:
    """Write items to stdout in the form in which `print_json` writes a list.

    Only the texts of the items are kept in memory: for a million records, a tenth of the objects' size.

    Raises
    ------
    StdoutError
        Standard output cannot be written.
    """
    texts = [_json([item])[2:-2] for item in items]  # without the lines of the brackets
    if not texts:
        print_json([])
        return
    first, *others = texts
    _write(chain(["[\n", first], (f",\n{text}" for text in others), ["\n]\n"]))


def _json(document: Any) -> str:
    return json.dumps(_finite(document), indent=2, default=str, allow_nan=False)


def _write(texts: Iterable[str]) -> None:
    stream = stdout()
    try:
        stream.writelines(texts)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        terminal.forget(stream)
        raise terminal.output_error("standard output", error) from error


def _finite(value: Any) -> Any:
    """Return `value` with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def note(message: str) -> None:
    """Print a message about progress on stderr."""
    terminal.say(message)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows in columns: with rich on a terminal, as plain text elsewhere."""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.table import Table
        from rich.text import Text

        drawn = Table(*headers, box=None, pad_edge=False, header_style="bold")
        for row in cells:
            drawn.add_row(*(Text(cell) for cell in row))
        terminal.console().print(drawn)
        return
    lines = [list(headers), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


# Holds the labgrid places of boards until a command ends, however it ends.


def hold_places(boards: Sequence[Board], wait_s: float | None = None) -> None:
    """Acquire the places of those boards that have one; they are released when the command ends.

    Errors are those of `held_places`.

    Parameters
    ----------
    wait_s
        Seconds to wait for a place that somebody else holds; the longer of this and its entry's counts.
    """
    if any(board.place for board in boards):
        from toolchain.boards.labgrid.client import held_places

        click.get_current_context().with_resource(held_places(boards, wait_s, note))


# Prints the accuracy loss of a network in integers.

_NAMED = 3
"""Number of layers to name among those that stay in floats for the same reason."""


def show_quantised(quantised: Quantised) -> None:
    """Print which layers became integers and the accuracy loss; with -v, each layer."""
    cost = quantised.cost
    for warning in cost.warnings():
        note(f"warning: {warning}")
    if is_verbose():
        rows = [(f"{layer.sqnr_db:.1f}", f"{layer.clipped:.2%}", layer.name) for layer in cost.layers]
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


# Prints the results of a bundle, in each of its shapes.


class Documented(Protocol):
    """A result that can be a JSON document."""

    def to_json(self) -> dict[str, Any]:
        """Return the document."""


Result = TypeVar("Result", bound=Documented)


def emit_shapes(
    bundle: Bundle,
    at: Sequence[str],
    results: Sequence[Result],
    whole: Mapping[str, object],
    show: Callable[[Result], None],
) -> None:
    """Print the results of a bundle.

    Parameters
    ----------
    at
        The shapes that were asked for; as of `shapes_at`.
    results
        Of each of these shapes in their order.
    whole
        Further fields of the document of a bundle with several shapes.
    """
    if not bundle.manifest.shapes:
        emit(results[0].to_json(), lambda: show(results[0]))
        return
    from toolchain.measuring.shapes import listed_inputs, shape_of, shapes_at

    pairs = list(zip(shapes_at(bundle, at), results, strict=True))

    def print_text() -> None:
        for shape, result in pairs:
            click.echo(f"{shape_of(shape.manifest)}")
            show(result)

    documents = [{"inputs": listed_inputs(shape.manifest), **result.to_json()} for shape, result in pairs]
    emit({**whole, "shapes": documents}, print_text)


# Prints the kernels of a task as a table.


def show_explained(chosen: str, explained: Sequence[Explained], model: KernelModel | None) -> None:
    """Print the resources that a task's kernels need on a device.

    Parameters
    ----------
    chosen
        Line that names the task's code; printed first.
    model
        A model of the device, whose times and counters become further columns; None: there is no model.
    """
    from toolchain.building.chosen import modelled_ms

    columns = ["KERNEL", "GROUP", "GROUPS", "VECTOR", "PRIVATE B", "BARRIERS"]
    if any(row.kernel.resources for row in explained):
        columns += ["REGISTERS", "SPILLED B", "STACK B", "LOCAL B"]
    if model:
        columns += model.columns
    click.echo(chosen)
    table(columns, [_row(row) for row in explained])
    if model is None:
        return
    total = modelled_ms(explained)
    if total is not None:
        click.echo(f"{shown_ms(total)} by the model")
    for row in explained:
        if row.modelled and row.modelled.problem:
            note(f"warning: {row.modelled.problem}")
    if model.half_note and any(row.kernel.computes_half for row in explained):
        note(f"warning: {model.half_note}")
    note(model.note)


def _row(explained: Explained) -> tuple[object, ...]:
    kernel, modelled = explained.kernel, explained.modelled
    cells = (
        kernel.name,
        _extents(kernel.group),
        _extents(kernel.groups),
        kernel.vector_width,
        kernel.private_bytes,
        kernel.barriers,
        *(_each(values) for values in zip(*map(_needed, kernel.resources), strict=True)),
    )
    return cells if modelled is None else (*cells, *modelled.cells())


def _needed(resources: Resources) -> tuple[int, ...]:
    return resources.registers, resources.spilled_bytes, resources.stack_bytes, resources.local_bytes


def _each(values: tuple[int, ...]) -> str:
    """Return a number for each architecture, or one number if they are equal."""
    return "/".join(map(str, values if len(set(values)) > 1 else values[:1]))


def _extents(extents: Extents) -> str:
    return "x".join(map(str, extents))

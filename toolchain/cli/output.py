"""The output of commands: one JSON document, or tables and lines for people."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, TextIO, TypeVar

import click

from toolchain.cli import terminal
from toolchain.foreign import printable

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


def emit(document: Any, tell: Callable[[], None]) -> None:
    """Print `document` as JSON if `--json` was given, else call `tell`."""
    if wants_json():
        print_json(document)
    else:
        tell()


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

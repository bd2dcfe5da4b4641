"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from toolchain.cli import complete
from toolchain.cli.output import hold_places, note
from toolchain.cli.progress import thinned_out
from toolchain.devices.table import OWN, kind_names
from toolchain.errors import UsageError
from toolchain.measuring.execution import Execution, OnBoard

LONGEST_S = 14 * 86400.0
"""Longest wait in seconds; the system's own limit is 24 days."""

Function = TypeVar("Function", bound=Callable[..., Any])

_BOARD_VARIABLE = "TOOLCHAIN_BOARD"


def gathered(name: str, make: Callable[..., object]) -> Callable[[Function], Function]:
    """Hand options to a command as one object instead of one by one.

    The options are declared above, each in its place of `--help`. An option of none of the command's objects
    stays a parameter of its own.

    Parameters
    ----------
    name
        The command's parameter for the object.
    make
        Returns the object; gets the options that have the names of its parameters.
    """
    names = frozenset(inspect.signature(make).parameters)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def called(**options: Any) -> Any:
            values = {key: options.pop(key) for key in names & options.keys()}
            return function(**options, **{name: make(**values)})

        return cast(Function, called)

    return decorate


bundle_argument = click.argument("bundle", type=click.Path(path_type=Path))


def _cluster_option(default: str) -> Callable[[Function], Function]:
    return click.option(
        "--cluster",
        metavar="CPU",
        help=f"CPU cluster, named by its core, such as cortex-a72; default: {default}.",
    )


cluster_option = _cluster_option("the first of the board class")
"""For commands that compile a network."""
_cluster_of_bundle = _cluster_option("the one of the build; if the board lacks it, the first")
"""For commands that run a bundle."""


class _DeviceOption(click.Option):
    """An option whose help names the kinds of installed plugins; it looks for plugins only to print help."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help, as click prints them."""
        added = kind_names()[len(OWN) :]
        self.help = _DEVICE_HELP.format(plugins=f"; of plugins: {', '.join(added)}" if added else "")
        return super().get_help_record(ctx)


_DEVICE_HELP = (
    f"What computes on the board: {', '.join([*OWN][:-1])} or {[*OWN][-1]}{{plugins}}; `toolchain board show "
    "--devices` lists what it has. NAME: "
    + "; ".join(f"of {row.name} {row.named}" for row in OWN.values() if row.named)
    + "."
)
device_option = click.option(
    "--device",
    cls=_DeviceOption,
    metavar="D[:NAME]",
    default="cpu",
    show_default=True,
    help=_DEVICE_HELP.format(plugins=""),
)
engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "docker", "host"]),
    envvar="TOOLCHAIN_ENGINE",
    show_envvar=True,
    help="Where the step runs: in the board class's image, or on this machine. "
    "Default: `engine` of toolchain.toml, else auto.",
)


class Finite(click.FloatRange):
    """A finite number within a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Seconds(click.FloatRange):
    """A waiting time in seconds: finite, above 0 (or 0 too if `zero`), at most two weeks."""

    def __init__(self, *, zero: bool = False) -> None:
        super().__init__(min=0, min_open=not zero)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number of seconds."""
        seconds = float(super().convert(value, param, ctx))
        if not seconds <= LONGEST_S:  # also true for NaN
            self.fail(f"{value} is not a possible time; use at most {LONGEST_S:.0f} seconds (two weeks).")
        return seconds


trial_timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(),
    metavar="S",
    help="Seconds for one candidate on the board; default: from its FLOPs.",
)


class Batch(click.ParamType[str]):
    """A first dimension, or a list of several in braces, as typed."""

    name = "batch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text if it is a number or a list of numbers."""
        from toolchain.models.options import parse_batch

        try:
            parse_batch(value)
        except UsageError as error:
            self.fail(f"{error.message}; {error.hint}.", param, ctx)
        return str(value)


class Switch(click.ParamType[bool]):
    """The words on and off, as a boolean."""

    name = "switch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return whether the word is on."""
        if isinstance(value, bool):
            return value
        if value not in ("on", "off"):
            self.fail(f"{value!r} is not one of 'on', 'off'.", param, ctx)
        return bool(value == "on")


class Moment(click.ParamType[str]):
    """A day or a time as people write it, in this machine's time zone unless it names one."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time in the form of records: ISO 8601 in UTC."""
        try:
            moment = datetime.fromisoformat(value)
            return moment.astimezone(UTC).isoformat(timespec="milliseconds")
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a day or time, such as 2026-11-23 or 2026-11-23T18:00.", param, ctx)


def board_option(help_text: str) -> Callable[[Function], Function]:
    """Add `--board`; a command gets None if neither the option nor its variable is given.

    An error about the name says where the name came from.
    """
    option = click.option(
        "--board",
        metavar="B",
        envvar=_BOARD_VARIABLE,
        show_envvar=True,
        shell_complete=complete.boards,
        help=f"{help_text} Default: `board` of toolchain.toml, else local.",
    )

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def called(*args: Any, board: str | None, **options: Any) -> Any:
            try:
                return function(*args, board=board, **options)
            except UsageError as error:
                prefix = f"{board_name(board)}:"
                if not error.message.startswith(prefix):
                    raise
                where = _board_origin(board_name(board)) + error.message.removeprefix(prefix)
                raise UsageError(where, error.hint) from error

        return option(cast(Function, called))

    return decorate


def _board_origin(name: str) -> str:
    """Return the option, variable or settings key that gave `name`, as the beginning of a message."""
    from toolchain.configuration.settings import configuration

    source = click.get_current_context().get_parameter_source("board")
    if source is ParameterSource.COMMANDLINE:
        return f"--board {name}:"
    if source is ParameterSource.ENVIRONMENT:
        return f"{_BOARD_VARIABLE}={name}:"
    return f"{configuration().origins['board']}: board = {name!r}:"


def board_name(board: str | None) -> str:
    """Return `board`, or the configured board for None."""
    if board is not None:
        return board
    from toolchain.configuration.settings import settings

    return settings().board


def named_inputs(option: str, help_text: str, *, required: bool = False) -> Callable[[Function], Function]:
    """Add an option such as `--input NAME=FILE.npy`, passed unparsed as `inputs`."""
    return click.option(
        option, "inputs", metavar="NAME=FILE.npy", multiple=True, required=required, help=help_text
    )


def output_path(metavar: str, help_text: str) -> Callable[[Function], Function]:
    """Add the required `-o`: a folder if `metavar` is DIR, else a file."""
    a_folder = metavar == "DIR"
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=a_folder, file_okay=not a_folder),
        required=True,
        metavar=metavar,
        help=help_text,
    )


def at_option(function: Function) -> Function:
    """Add `--at`, which picks among the shapes of a bundle, passed as `at`."""
    return click.option(
        "--at",
        metavar="NAME=D,D,…",
        multiple=True,
        help="Of a bundle of several shapes, only those with an input of this shape; may be repeated. "
        "Default: all.",
    )(function)


@dataclass(frozen=True)
class NamedBoard:
    """The board that executes a command's bundle, as the user named it.

    Attributes
    ----------
    name
        None: the configured board.
    timeout, wait
        As of `OnBoard`.
    """

    name: str | None
    timeout: float | None
    wait: float | None

    def hold(self) -> OnBoard:
        """Find the board, and hold its labgrid place until the command ends.

        Raises
        ------
        UsageError
            There is no such board.
        ToolchainError
            Somebody else holds its place.
        """
        from toolchain.boards.inventory.lookup import find_board

        board = find_board(board_name(self.name))
        hold_places([board], self.wait)
        return OnBoard(board, self.timeout, self.wait, thinned_out(note))


def _named_board(board: str | None, timeout: float | None, wait: float | None) -> NamedBoard:
    return NamedBoard(board, timeout, wait)


def execution_options(function: Function) -> Function:
    """Add the options of executing a bundle to a command with `board_option`.

    They are passed as `execution: Execution` and, with the board's name, as `board: NamedBoard`.
    """
    decorated = gathered("execution", Execution)(gathered("board", _named_board)(function))
    for option in reversed(
        (
            click.option(
                "--device",
                metavar="KIND:NAME",
                help="Which device of the bundle's kind computes, by the name in `edge-rt info` or by number "
                "(cuda:1); vta:sim simulates a VTA. Default: the one it was built for, else the first that "
                "is no simulation.",
            ),
            click.option(
                "--threads", type=click.IntRange(min=1), metavar="N", help="Default: the cluster's cores."
            ),
            _cluster_of_bundle,
            click.option(
                "--spin-us",
                type=click.IntRange(0, 1_000_000),
                metavar="US",
                help="Microseconds that an idle thread spins before it sleeps; 0 saves the most "
                "energy. Default: 50; always 0 with more threads than CPUs.",
            ),
            click.option(
                "--timeout",
                type=Seconds(),
                metavar="S",
                help="Seconds until the command gives up; default: from the network's FLOPs and the board.",
            ),
            click.option(
                "--wait",
                type=Seconds(zero=True),
                metavar="S",
                help="Seconds to wait for a busy board; default: none.",
            ),
            click.option(
                "--graph",
                type=Switch(),
                metavar="on|off",
                default="on",
                show_default=True,
                help="off: a GPU's driver gets the kernels one by one, not as one graph; for debugging.",
            ),
        )
    ):
        decorated = option(decorated)
    return decorated

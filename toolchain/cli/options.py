"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from toolchain.cli import complete

Function = TypeVar("Function", bound=Callable[..., Any])

model_argument = click.argument("model", shell_complete=complete.models)
bundle_argument = click.argument("bundle", type=click.Path(path_type=Path))
cluster_option = click.option(
    "--cluster",
    metavar="CPU",
    help="Cores of one kind, such as cortex-a72; default: the bundle's, or the class's first.",
)
device_option = click.option(
    "--device",
    metavar="D",
    default="cpu",
    show_default=True,
    help="What computes on the board; `toolchain board show` lists its devices.",
)
engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "host"]),
    default="auto",
    envvar="TOOLCHAIN_ENGINE",
    show_envvar=True,
    show_default=True,
    expose_value=False,  # there is one engine so far, and both names mean it
    help="Where the step runs; host: on this machine.",
)


def board_option(help_text: str) -> Callable[[Function], Function]:
    """Add `--board`; a command gets None when neither the option nor its variable is given."""
    return click.option(
        "--board",
        metavar="B",
        envvar="TOOLCHAIN_BOARD",
        show_envvar=True,
        shell_complete=complete.boards,
        help=f"{help_text} Default: `board` of toolchain.toml, else local.",
    )


def board_name(board: str | None) -> str:
    """Return the board that was asked for, else the configured one."""
    if board is not None:
        return board
    from toolchain.config import settings

    return settings().board


def named_inputs(option: str, help_text: str, *, required: bool = False) -> Callable[[Function], Function]:
    """Add an option such as `--input NAME=FILE.npy`, passed unparsed as `inputs`."""
    return click.option(
        option, "inputs", metavar="NAME=FILE.npy", multiple=True, required=required, help=help_text
    )


def place_options(function: Function) -> Function:
    """Add what says how a bundle is executed: threads, cluster, deadlines."""
    for option in reversed(
        (
            click.option(
                "--threads", type=click.IntRange(min=1), metavar="N", help="Default: the cluster's cores."
            ),
            cluster_option,
            click.option(
                "--timeout",
                type=click.FloatRange(min=0, min_open=True),
                metavar="S",
                help="Seconds until the board is given up; default: from the network's FLOPs and the board.",
            ),
            click.option(
                "--wait",
                type=click.FloatRange(min=0),
                metavar="S",
                help="Seconds to wait for a board that is busy; default: none.",
            ),
        )
    ):
        function = option(function)
    return function


_MODEL_OPTIONS = (
    click.option(
        "--layout",
        type=click.Choice(["auto", "packed", "NCHW", "NHWC"]),
        default="auto",
        show_default=True,
        help="Layout of convolutions; auto: what suits the board.",
    ),
    click.option(
        "--winograd",
        type=click.Choice(["auto", "off"]),
        default="auto",
        show_default=True,
        help="Whether convolutions may use Winograd's algorithm.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(["float32", "float16"]),
        default="float32",
        show_default=True,
        help="Arithmetic of the compiled network.",
    ),
    click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Size of the first dimension."),
    click.option(
        "--shape",
        "shapes",
        metavar="NAME=D,D,…",
        multiple=True,
        help="Shape of an input whose file leaves it open; may be repeated.",
    ),
    click.option(
        "--weights-seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of a zoo network's weights.",
    ),
)


def model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that shape a network, passed together as `options: ModelOptions`."""

    @wraps(function)
    def gathered(*args: Any, shapes: tuple[str, ...], **kwargs: Any) -> Any:
        from toolchain.models.options import ModelOptions, parse_shapes

        values = {name: kwargs.pop(name) for name in ("layout", "winograd", "dtype", "batch", "weights_seed")}
        return function(*args, options=ModelOptions(**values, shapes=parse_shapes(shapes)), **kwargs)

    decorated: Callable[..., Any] = gathered
    for option in reversed(_MODEL_OPTIONS):
        decorated = option(decorated)
    return decorated

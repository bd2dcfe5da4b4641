"""The one set of options of every command that takes a MODEL."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from toolchain.cli import complete

model_argument = click.argument("model", shell_complete=complete.models)
_MODEL_OPTIONS = (
    click.option(
        "--layout",
        type=click.Choice(["auto", "packed", "NCHW", "NHWC"]),
        default="auto",
        show_default=True,
        help="Layout of convolutions; auto: packed.",
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

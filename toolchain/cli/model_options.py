"""The options that all commands with a MODEL share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from toolchain.cli import complete
from toolchain.cli.options import Batch, gathered
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.models.options import QUANTIZERS
from toolchain.tasks.options import DTYPES, LAYOUTS, RATES, WINOGRADS, CodeOptions

if TYPE_CHECKING:
    from toolchain.models.options import ModelOptions

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _named(name: str, *parts: str, **settings: Any) -> tuple[str, Decorator]:
    """Return an option with its name."""
    return name, click.option(name, *parts, **settings)


def _named_architectures(context: click.Context, option: click.Parameter, value: str) -> str:
    """Return the value of --arch; refuse one with an empty name, as from an unset variable of a script."""
    given = context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
    if given and not all(name.strip() for name in value.split(",")):
        raise UsageError(
            f"--arch {value!r}: an architecture has no name",
            "leave the option out for the board class's, or name some: --arch sm_80,sm_90",
        )
    return value


model_argument = click.argument("model", shell_complete=complete.models)
_MODEL_OPTIONS = (
    _named(
        "--layout",
        type=click.Choice(LAYOUTS),
        default="auto",
        show_default=True,
        help="Layout of convolutions; auto: packed.",
    ),
    _named(
        "--winograd",
        type=click.Choice(WINOGRADS),
        default="auto",
        show_default=True,
        help="Whether convolutions may use Winograd's algorithm.",
    ),
    _named(
        "--dtype",
        type=click.Choice(DTYPES),
        default="float32",
        show_default=True,
        help="Arithmetic of the compiled network; tfloat32: on tensor cores, with --device cuda.",
    ),
    _named(
        "--rates",
        type=click.Choice(RATES),
        default="auto",
        show_default=True,
        envvar="TOOLCHAIN_RATES",
        show_envvar=True,
        help="Speeds of cores by which code is chosen for tasks without tuning records. class: those of the "
        "board class, the same in every build; board: those that `board probe` measured on this board; auto: "
        "the board's if it was measured, else the class's.",
    ),
    _named(
        "--arch",
        default="",
        metavar="ARCH,…",
        callback=_named_architectures,
        help="With --device cuda: architectures such as sm_90, or native; default: the board class's.",
    ),
    _named(
        "--quantizer",
        type=click.Choice(QUANTIZERS),
        help="With --dtype int8: how scales are chosen. mse (default on CPUs), minmax, percentile: by the "
        "squared error, the extremes, 99.99 % of the values. power-of-two (default elsewhere), global-scale: "
        "for devices that shift, a scale for each tensor, or one for all layers (as TVM).",
    ),
    _named(
        "--calibrate",
        "calibration",
        metavar="NAME=FILE.npy",
        multiple=True,
        help="With --dtype int8: sample images for an input, stacked along the first dimension; may be "
        "repeated. Default: random ones, whose scales do not fit real data.",
    ),
    _named(
        "--start-pack",
        default="",
        metavar="OPERATOR",
        help="With --device vta: the VTA computes only layers after this operator, the CPU those before it. "
        "Default: max_pool2d, or from the first layer on if the network has none.",
    ),
    _named(
        "--stop-pack",
        default="",
        metavar="OPERATOR",
        help="With --device vta: the VTA computes only layers before this operator, the CPU those after it. "
        "Default: mean (a global average pool), or up to the last layer if the network has none.",
    ),
    _named(
        "--batch",
        type=Batch(),
        metavar="N",
        help="Size of the first dimension.",
    ),
    _named(
        "--shape",
        "shapes",
        metavar="NAME=D,D,…",
        multiple=True,
        help="Shape of an input whose file leaves it open; may be repeated.",
    ),
    _named(
        "--input-value",
        "input_values",
        metavar="NAME=V",
        multiple=True,
        help="Make an input a constant: a number, several between commas, or a .npy file; may be repeated.",
    ),
    _named(
        "--outputs",
        metavar="NAME,…",
        multiple=True,
        help="Cut the network at these tensors, which become its outputs; may be repeated.",
    ),
    _named(
        "--weights-seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed of a zoo network's weights.",
    ),
)

_SEVERAL = dict(
    (
        _named(
            "--batch",
            type=Batch(),
            metavar="N",
            help="Size of the first dimension, or several: '{1,8}'.",
        ),
        _named(
            "--shape",
            "shapes",
            metavar="NAME=D,D,…",
            multiple=True,
            help="Shape of an input whose file leaves it open, or several: 'x=1,3,48,{160,320}'; may be "
            "repeated.",
        ),
    )
)
"""The options of commands that take several shapes, where they differ."""


@dataclass(frozen=True)
class _TypedOptions:
    """The options that shape a network, as typed."""

    batch: str | None
    shapes: tuple[str, ...]
    input_values: tuple[str, ...]
    quantizer: str | None
    calibration: tuple[str, ...]
    outputs: tuple[str, ...]
    weights_seed: int

    def parsed(self, code: CodeOptions, *, several: bool) -> ModelOptions:
        """Return the options, checked against those of the code.

        Parameters
        ----------
        several
            Whether the command takes several shapes.

        Raises
        ------
        UsageError
            A value is malformed, an option needs another one, or there are several shapes.
        """
        from toolchain.models.options import (
            ModelOptions,
            parse_calibration,
            parse_input_values,
            shape_options,
        )

        integers = code.dtype == "int8"
        for option, value in (("--quantizer", self.quantizer), ("--calibrate", self.calibration)):
            if value and not integers:
                raise UsageError(f"{option}: applies only to integers", "add --dtype int8")
        options = ModelOptions(
            outputs=self.outputs,
            weights_seed=self.weights_seed,
            **shape_options(self.batch, self.shapes),
            input_values=parse_input_values(self.input_values),
            quantizer=_quantizer(self.quantizer, code.device_kind) if integers else "",
            calibration=parse_calibration(self.calibration),
        )
        if options.several and not several:
            raise UsageError(
                f"{options.several}: lists {len(options.several.choices)} shapes, and this command takes one",
                "give one shape; `build`, `tune` and `tasks` take several",
            )
        return options


def model_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that shape a network, passed as `options: ModelOptions` and `code: CodeOptions`."""
    return _with_options(function, {})


def vta_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same options to a command for a VTA, without those that VTA fixes: device, layout, dtype."""
    fixed = {
        "device": "vta",
        "layout": "auto",
        "winograd": "auto",
        "dtype": "int8",
        "arch": "",
        "rates": "auto",
    }
    return _with_options(function, fixed)


def several_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same options as `model_options`, to a command that takes several shapes of a network."""
    return _with_options(function, {}, several=True)


def _with_options(
    function: Callable[..., Any], fixed: Mapping[str, str], *, several: bool = False
) -> Callable[..., Any]:
    @wraps(function)
    def parsed(*, code: CodeOptions, typed: _TypedOptions, **others: Any) -> Any:
        return function(options=typed.parsed(code, several=several), code=code, **others)

    code_options = partial(CodeOptions, **fixed)
    decorated: Callable[..., Any] = parsed
    decorated = gathered("code", code_options)(gathered("typed", _TypedOptions)(decorated))
    fixing = {f"--{name}" for name in fixed}
    for name, option in reversed(_MODEL_OPTIONS):
        if name not in fixing:
            decorated = (_SEVERAL.get(name, option) if several else option)(decorated)
    return decorated


def _quantizer(named: str | None, kind: str) -> str:
    """Return the quantizer for a kind of device.

    Raises
    ------
    UsageError
        Its code cannot compute with the named one's scales.
    """
    possible = kind_of(kind).quantizers
    if named and named not in possible:
        raise UsageError(
            f"--quantizer {named}: --device {kind} cannot compute with its scales",
            f"use --quantizer {'|'.join(possible)}",
        )
    return named or possible[0]


def graph_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same options to a command that reads only the graph; it gets no `code`."""

    @wraps(function)
    def without_code(*args: Any, code: CodeOptions, **kwargs: Any) -> Any:
        del code
        return function(*args, **kwargs)

    return model_options(without_code)

"""The options every command with a MODEL shares. Imports neither tvm nor onnx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolchain.errors import UsageError

LAYOUTS = ("auto", "packed", "NCHW", "NHWC")
WINOGRADS = ("auto", "off")
DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class ModelOptions:
    """How a source becomes a Model.

    Attributes
    ----------
    layout
        Data layout of convolutions; `auto` is packed: channels in blocks as wide as a vector.
    winograd
        Whether convolutions may be computed by winograd in packed layouts; `auto`: where it pays.
    dtype
        Arithmetic of the library; its inputs and outputs and the reference are always float32.
    batch
        First dimension of the inputs, where the file leaves it open; None leaves it to `shapes`.
    shapes
        Input name -> its whole static shape.
    weights_seed
        Seed of a zoo network's weights; without effect on files.
    """

    layout: str = "auto"
    winograd: str = "auto"
    dtype: str = "float32"
    batch: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    weights_seed: int = 0

    @property
    def packed(self) -> bool:
        """Whether the network's values are packed."""
        return self.layout in ("auto", "packed")

    @property
    def uses_winograd(self) -> bool:
        """Whether convolutions may be computed by winograd."""
        return self.winograd != "off"

    def __post_init__(self) -> None:
        _check_choice("--layout", self.layout, LAYOUTS)
        _check_choice("--winograd", self.winograd, WINOGRADS)
        _check_choice("--dtype", self.dtype, DTYPES)
        if self.dtype == "float16" and not self.packed:
            raise UsageError(
                f"--dtype float16: there is no code for it in --layout {self.layout}", "leave --layout out"
            )
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"--batch {self.batch}: must be 1 or more")
        if self.weights_seed < 0:
            raise UsageError(f"--weights-seed {self.weights_seed}: must be 0 or more")


def _check_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value in allowed:
        return
    raise UsageError(f"{option} {value}: no such choice", f"use {option} {'|'.join(allowed)}")


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read `NAME=D,D,…`; the last `=` separates, because names may hold `:`, `/` and `=`.

    Raises
    ------
    UsageError
        No name, no dimensions, or a dimension that is no positive whole number.
    """
    name, separator, dimensions = text.rpartition("=")
    parts = dimensions.split(",")
    if not separator or not name or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"--shape {text}: not NAME=D,D,…", "for example --shape data=1,3,224,224")
    return name, tuple(int(part) for part in parts)


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Read all `--shape` options of a command line.

    Raises
    ------
    UsageError
        One is malformed, or an input is given two shapes.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, shape = parse_shape(text)
        if shapes.setdefault(name, shape) != shape:
            raise UsageError(f"--shape {text}: {name!r} was given another shape before")
    return shapes


def format_shape(name: str, shape: Iterable[int | str]) -> str:
    """Write what `parse_shape` reads; open dimensions keep their names."""
    return f"{name}={','.join(str(dimension) for dimension in shape)}"

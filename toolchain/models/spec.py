"""Specifications of a network's inputs and outputs. Imports neither tvm nor onnx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.errors import UsageError
from toolchain.foreign import printable

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class TensorSpec:
    """Name, static shape and numpy dtype name of one input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{printable(self.name)} {list(self.shape)} {self.dtype}"


NUMBERS = frozenset({"bool", "float16", "float32", "float64"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""Tensor types that a program can pass in and read."""

MOST_ELEMENTS = 2**40
"""Largest number of elements a file may declare for a tensor: no file or memory could hold more."""


def check_types(specs: Sequence[TensorSpec], origin: str) -> None:
    """Check that inputs or outputs have types that a program can pass in and read.

    Raises
    ------
    UsageError
        One has another type, such as bfloat16.
    """
    for spec in specs:
        if spec.dtype not in NUMBERS:
            raise UsageError(
                f"{origin}: {spec.name!r} is of {spec.dtype}, which no program can hand over or read",
                "export the network with inputs and outputs of float32",
            )


def check_inputs(
    specs: Sequence[TensorSpec],
    arrays: Mapping[str, np.ndarray],
    option: str = "--input",
    *,
    shapes: bool = True,
) -> None:
    """Check that `arrays` are exactly the inputs that `specs` describe.

    Parameters
    ----------
    option
        Command-line option with the arrays, for error messages.
    shapes
        Whether the shapes must be those of `specs`, too.

    Raises
    ------
    UsageError
        An input is unknown, missing, or has another shape or dtype; the message says what is expected.
    """
    expected = "the inputs are: " + "; ".join(str(spec) for spec in specs)
    unknown = sorted(set(arrays) - {spec.name for spec in specs})
    if unknown:
        raise UsageError(f"{option} {unknown[0]}: the network has no input of this name", expected)
    for spec in specs:
        if spec.name not in arrays:
            raise UsageError(f"the input {spec.name!r} is missing", f"add {option} {spec.name}=FILE.npy")
        array = arrays[spec.name]
        if shapes and array.shape != spec.shape:
            raise UsageError(
                f"{option} {spec.name}: shape {list(array.shape)} where {list(spec.shape)} is expected",
                expected,
            )
        if array.dtype.name != spec.dtype:
            raise UsageError(
                f"{option} {spec.name}: dtype {array.dtype.name} where {spec.dtype} is expected",
                f"save it as numpy.{spec.dtype}: array.astype({spec.dtype!r})",
            )

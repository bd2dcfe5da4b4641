"""The user's arrays: `.npy` files in, one `.npz` file out."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from toolchain.errors import UsageError
from toolchain.files import atomic
from toolchain.models.options import split_named
from toolchain.models.samples import read_array
from toolchain.models.spec import TensorSpec, check_inputs

_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the format's epoch: equal outputs give equal files


def read_inputs(
    arguments: Sequence[str], specs: Sequence[TensorSpec], option: str = "--input", *, shapes: bool = True
) -> dict[str, np.ndarray]:
    """Return the inputs given as `NAME=FILE.npy`, in the network's order, C-contiguous.

    Parameters
    ----------
    arguments
        Values of the option. Each is split after the longest name of an input that it begins with, else at
        its first '='.
    specs
        The network's inputs.
    option
        Name of the option, for error messages.
    shapes
        Whether the shapes must be those of `specs`; False for a network in several shapes.

    Raises
    ------
    UsageError
        An argument has no '=', a name is unknown, missing or given twice, a file cannot be read or is not
        a `.npy` file of numbers, or a shape or dtype is wrong.
    """
    arrays: dict[str, np.ndarray] = {}
    names = [spec.name for spec in specs]
    for argument in arguments:
        first, _, rest = argument.partition("=")
        name, file = split_named(argument, names) or (first, rest)
        if not (name and file):
            raise UsageError(f"{option} {argument}: not NAME=FILE.npy", f"such as {option} {_example(specs)}")
        if name in arrays:
            raise UsageError(f"{option} {argument}: the input {name!r} is given twice", "leave one out")
        arrays[name] = read_array(Path(file), f"{option} {argument}")
    check_inputs(specs, arrays, option, shapes=shapes)
    return {spec.name: arrays[spec.name] for spec in specs}


def write_outputs(file: Path, outputs: Mapping[str, np.ndarray]) -> None:
    """Write `outputs` atomically as an `.npz` file, its keys in the given order.

    Raises
    ------
    ToolchainError
        The file system refused.
    """
    with atomic.replacing(file) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        # Not numpy.savez, which takes names as keyword arguments: `file` would clash.
        for name, array in outputs.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _ZIP_TIME)
            with archive.open(entry, "w", force_zip64=array.nbytes >= 2**31) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _example(specs: Sequence[TensorSpec]) -> str:
    return f"{specs[0].name if specs else 'NAME'}=x.npy"

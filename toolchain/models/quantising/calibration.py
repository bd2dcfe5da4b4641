"""Calibration images, the tensors' values for them by onnxruntime, and refusals of what has no scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Generic, TypeVar

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import first_line, printable
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.integer_sessions import ask_for_integers
from toolchain.models.options import split_named
from toolchain.models.reading.onnx_file import with_known_opsets
from toolchain.models.samples import SORTS, Sort, UnusableSampleError, first_usable, read_array, samples
from toolchain.models.spec import TensorSpec
from toolchain.quantities import counted

# Refuses what has no scale: networks without layers to quantise, and numbers that are NaN or infinite.

_SHOWN = 3
"""Number of layers that an error names."""


def nothing_to_quantise(left: Mapping[str, str], otherwise: str, origin: str) -> UsageError:
    """Return the error for a network without any layer that can be quantised.

    Parameters
    ----------
    left
        Name of a layer -> why it is not quantised.
    otherwise
        The reason if there is no such layer.
    """
    reasons = "; ".join(f"{name}: {reason}" for name, reason in list(left.items())[:_SHOWN])
    return UsageError(
        f"{origin}: --dtype int8: nothing of it can be quantised ({reasons or otherwise})",
        "build it with --dtype float32",
    )


def check_stored(what: str, values: Array, origin: str) -> None:
    """Check that the weights which `what` names are numbers.

    Raises
    ------
    UsageError
        One is NaN or infinite.
    """
    if wrong := np.count_nonzero(~np.isfinite(values)):
        raise UsageError(
            f"{origin}: --dtype int8: its {what} holds NaN or infinity in {wrong} of "
            f"{counted(values.size, 'place')}, for which there is no scale",
            "export the network again, from weights that are numbers",
        )


def check_computed(name: str, values: Array, number: int, origin: str) -> None:
    """Check that a tensor's values for a sample are numbers.

    Raises
    ------
    UnusableSampleError
        One is NaN or infinite.
    """
    if not np.isfinite(values).all():
        reason = f"tensor {printable(name)!r} is NaN or infinite for sample {number}"
        raise UnusableSampleError(
            f"{origin}: --dtype int8: {reason}, so that it can have no scale",
            "calibrate with inputs that the network is made for (--calibrate NAME=FILE.npy), or "
            "build it with --dtype float32",
            reason,
        )


Inputs = dict[str, Array]
T = TypeVar("T")

CALIBRATING = range(1, 5)
"""Seeds of the inputs for choosing exponents, if the user gives none; 0 is the bundle's sample."""

JUDGING = range(5, 9)
"""Seeds of the inputs for measuring the loss, if the user gives none."""


def seeded(specs: Sequence[TensorSpec], seeds: Iterable[int], sort: Sort = SORTS[0]) -> list[Inputs]:
    """Return one set of random inputs for each seed."""
    return [samples(specs, seed, sort) for seed in seeds]


def given(specs: Sequence[TensorSpec], files: Mapping[str, Path]) -> list[Inputs]:
    """Return the inputs of `--calibrate NAME=FILE.npy`: one set for each batch along the first dimension.

    For a scalar input each image has one number.

    Raises
    ------
    UsageError
        An input is unknown or missing, or an array has another shape or type than its input, contains NaN,
        or has another number of images than the others.
    """
    expected = "the inputs are: " + "; ".join(map(str, specs))
    files = dict(_split(first, rest, specs) for first, rest in files.items())
    if strangers := sorted(files.keys() - {spec.name for spec in specs}):
        raise UsageError(f"--calibrate {strangers[0]}: the network has no input of this name", expected)
    sets: dict[str, list[Array]] = {}
    for spec in specs:
        if spec.name not in files:
            raise UsageError(
                f"--calibrate: images for the input {spec.name!r} are missing",
                f"add --calibrate {spec.name}=FILE.npy",
            )
        sets[spec.name] = _batches(spec, files[spec.name])
    counts = {name: len(batches) for name, batches in sets.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(f"--calibrate: the inputs have unlike numbers of batches: {counts}", expected)
    return [dict(zip(sets, arrays, strict=True)) for arrays in zip(*sets.values(), strict=True)]


@dataclass(frozen=True)
class Calibrated(Generic[T]):
    """Scales chosen with sample inputs, and the inputs on which to measure their loss.

    Attributes
    ----------
    judging
        The inputs with which to measure the loss: the user's own, or other random ones.
    """

    result: T
    judging: Sequence[Inputs]


def choose_with_inputs(
    specs: Sequence[TensorSpec], images: Mapping[str, Path], choose: Callable[[Sequence[Inputs]], T]
) -> Calibrated[T]:
    """Call `choose` with the user's images; without any, with random inputs that the network can use.

    Raises
    ------
    UsageError
        The images do not fit, or the network can use no random inputs.
    """
    if images:
        judging = given(specs, images)
        return Calibrated(choose(judging), judging)
    usable = first_usable(specs, lambda sort: choose(seeded(specs, CALIBRATING, sort)))
    return Calibrated(usable.result, seeded(specs, JUDGING, usable.sort))


def _split(first: str, rest: Path, specs: Sequence[TensorSpec]) -> tuple[str, Path]:
    """Split `NAME=FILE` behind a known name: at the last `=`, a folder's name may have been cut."""
    named = split_named(f"{first}={rest}", [spec.name for spec in specs])
    return (first, rest) if named is None else (named[0], Path(named[1]))


def _batches(spec: TensorSpec, file: Path) -> list[Array]:
    option = f"--calibrate {spec.name}"
    array = read_array(file, option)
    batch = spec.shape[0] if spec.shape else 1  # a scalar has a number for each image
    if array.dtype.name != spec.dtype or array.shape[1:] != spec.shape[1:] or not array.ndim:
        raise UsageError(
            f"{option}: {file} is {array.dtype.name}{list(array.shape)}, the input {spec}",
            "its first dimension counts images; the others and the type are the input's",
        )
    if not len(array) or len(array) % batch:
        raise UsageError(
            f"{option}: {file} holds {counted(len(array), 'image')}, not batches of {batch}",
            f"give a multiple of {batch}, one batch at least",
        )
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        count = np.count_nonzero(~np.isfinite(array))
        raise UsageError(
            f"{option}: {file} holds NaN or infinity in {count} of {counted(array.size, 'place')}",
            "leave such images out: numpy.isfinite finds them",
        )
    return [array[start : start + batch].reshape(spec.shape) for start in range(0, len(array), batch)]


class Tapped:
    """Computes a graph with onnxruntime on one thread and returns inner tensors.

    Parameters
    ----------
    names
        The tensors to return.
    """

    def __init__(self, model: onnx.ModelProto, names: Iterable[str], origin: str) -> None:
        self._inputs = {value.name for value in model.graph.input}
        self._names = sorted(set(names) - self._inputs)
        self._tapped = set(names)
        self._origin = origin
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        tapped = onnx.ModelProto()
        tapped.CopyFrom(with_known_opsets(ask_for_integers(options, model)))
        have = {output.name for output in tapped.graph.output}
        tapped.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._names if name not in have)
        try:
            self._session = onnxruntime.InferenceSession(
                tapped.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors have no common parent
            raise UsageError(
                f"{origin}: onnxruntime, which calibrates, cannot load it: {first_line(error)}",
                "build it with --dtype float32",
            ) from error

    def values(self, inputs: Inputs) -> dict[str, Array]:
        """Return the tensors for one set of inputs.

        Raises
        ------
        UnusableSampleError
            onnxruntime cannot run the graph with these inputs.
        """
        try:
            results = self._session.run(self._names, inputs) if self._names else []
        except Exception as error:
            message = first_line(error)
            files = " ".join(f"--calibrate {quote(name)}=FILE.npy" for name in sorted(self._inputs))
            raise UnusableSampleError(
                f"{self._origin}: onnxruntime, which calibrates, cannot run it: {message}",
                f"hand over inputs that the network is made for: {files}",
                message,
            ) from error
        computed = dict(zip(self._names, results, strict=True))
        return computed | {name: array for name, array in inputs.items() if name in self._tapped}

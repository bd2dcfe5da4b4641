"""Checks whether a network's inputs may be padded with zeros from one shape to the next larger one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.models.judging.reference import Reference
from toolchain.models.judging.session import ReferenceSession
from toolchain.models.load import Model
from toolchain.models.samples import UnusableSampleError
from toolchain.models.several import input_elements, shape_of
from toolchain.quantities import counted

_HINT = (
    "leave --pad out; inputs of other shapes are refused then. Networks that take masks or lengths allow it"
)


def check_padding(model: Model, references: Sequence[Reference], tolerance: float) -> None:
    """Compute each shape's sample again, padded to the next shape, and compare what the outputs share.

    Zeros behind the inputs must change nothing at the places that the outputs of the smaller shape have.

    Parameters
    ----------
    references
        A sample with its expected outputs for each of the model's `shapes`.
    tolerance
        Largest allowed max|y-r| / max|r| of floating-point outputs.

    Raises
    ------
    UsageError
        An output changes, or no shape fits into another.
    """
    pairs = list(_pairs(model, references))
    if not pairs:
        raise UsageError(
            "--pad: none of the shapes fits into another", "list shapes that grow, or leave --pad out"
        )
    for small, large, reference in pairs:
        sample = {spec.name: padded(reference.sample[spec.name], spec.shape) for spec in large.inputs}
        what = f"--pad: {model.name} padded with zeros from {shape_of(small)} to {shape_of(large)}"
        try:
            outputs = ReferenceSession(large, "--sample").outputs(sample)
        except UnusableSampleError as error:
            raise UsageError(f"{what}: {error.reason}", _HINT) from error
        if problem := _difference(reference.outputs, outputs, tolerance):
            raise UsageError(f"{what} computes something else: {problem}", _HINT)


def padded(array: Array, shape: Sequence[int]) -> Array:
    """Return an array with zeros behind it on each axis, up to `shape`."""
    return np.pad(array, [(0, room - extent) for room, extent in zip(shape, array.shape, strict=True)])


def _pairs(model: Model, references: Sequence[Reference]) -> Iterator[tuple[Model, Model, Reference]]:
    """Yield each shape that fits into another, the smallest of those others, and the shape's reference."""
    for small, reference in zip(model.shapes, references, strict=True):
        larger = [each for each in model.shapes if each is not small and _fits(small, each)]
        if larger:
            yield small, min(larger, key=input_elements), reference


def _fits(small: Model, large: Model) -> bool:
    return all(
        extent <= room
        for mine, theirs in zip(small.inputs, large.inputs, strict=True)
        for extent, room in zip(mine.shape, theirs.shape, strict=True)
    )


def _difference(expected: Mapping[str, Array], found: Mapping[str, Array], tolerance: float) -> str:
    """Say which output differs at the places that both have; empty if none does."""
    for name, small in expected.items():
        large = found[name]
        if any(extent > room for extent, room in zip(small.shape, large.shape, strict=True)):
            return f"output {name!r} has the shape {list(large.shape)} where {list(small.shape)} is expected"
        shared = large[tuple(slice(extent) for extent in small.shape)]
        if not np.issubdtype(small.dtype, np.floating):
            if not np.array_equal(shared, small):
                differing = np.count_nonzero(shared != small)
                return f"output {name!r} differs in {differing} of {counted(small.size, 'value')}"
            continue
        largest = float(np.abs(small).max(initial=0.0)) or 1.0
        error = float(np.abs(shared.astype(np.float64) - small).max(initial=0.0)) / largest
        if error > tolerance:
            return f"output {name!r} is off by {error:.3g} of its largest value, tolerance {tolerance:g}"
    return ""

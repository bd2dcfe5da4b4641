"""Checks whether a network's inputs may be padded with zeros from one shape to the next larger one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from toolchain.arrays import Array
from toolchain.building.tolerances import Expectation
from toolchain.errors import UsageError
from toolchain.measuring.numerics import OutputDeviation, compare
from toolchain.measuring.verify import tolerances_of
from toolchain.models.judging.session import Outputs, ReferenceSession
from toolchain.models.load import Model
from toolchain.models.multi_shape import input_elements, shape_of
from toolchain.models.samples import UnusableSampleError

_HINT = (
    "leave --pad out; inputs of other shapes are refused then. Networks that take masks or lengths allow it"
)


def check_padding(model: Model, expectations: Sequence[Expectation], tolerance: float) -> None:
    """Compute each shape's sample again, padded to the next shape, and compare what the outputs share.

    Zeros behind the inputs must change nothing at the places that the outputs of the smaller shape have.
    These are compared as `verify` compares them.

    Parameters
    ----------
    expectations
        A sample with its expected outputs, and their comparison, for each of the model's `shapes`.
    tolerance
        Largest allowed max|y-r| / max|r| of floating-point outputs.

    Raises
    ------
    UsageError
        An output changes, or no shape fits into another.
    """
    pairs = list(_pairs(model, expectations))
    if not pairs:
        raise UsageError(
            "--pad: none of the shapes fits into another", "list shapes that grow, or leave --pad out"
        )
    for small, large, expected in pairs:
        sample = {
            spec.name: padded(expected.reference.sample[spec.name], spec.shape) for spec in large.inputs
        }
        what = f"--pad: {model.name} padded with zeros from {shape_of(small)} to {shape_of(large)}"
        try:
            outputs = ReferenceSession(large, "--sample").outputs(sample)
        except UnusableSampleError as error:
            raise UsageError(f"{what}: {error.reason}", _HINT) from error
        for wrong in _deviations(small, expected, outputs, tolerance):
            raise UsageError(f"{what} computes something else: output {wrong.name!r}: {wrong.failure}", _HINT)


def padded(array: Array, shape: Sequence[int]) -> Array:
    """Return an array padded with zeros at the end of each axis, up to `shape`."""
    return np.pad(array, [(0, room - extent) for room, extent in zip(shape, array.shape, strict=True)])


def _pairs(model: Model, expectations: Sequence[Expectation]) -> Iterator[tuple[Model, Model, Expectation]]:
    """Yield each shape that fits into another, the smallest of those others, and what the shape computes."""
    for small, expected in zip(model.shapes, expectations, strict=True):
        larger = [shape for shape in model.shapes if shape is not small and _fits(small, shape)]
        if larger:
            yield small, min(larger, key=input_elements), expected


def _fits(small: Model, large: Model) -> bool:
    return all(
        extent <= room
        for mine, theirs in zip(small.inputs, large.inputs, strict=True)
        for extent, room in zip(mine.shape, theirs.shape, strict=True)
    )


def _deviations(
    small: Model, expected: Expectation, outputs: Outputs, tolerance: float
) -> Iterator[OutputDeviation]:
    """Yield the outputs that differ at the places that both shapes have."""
    due = expected.reference.outputs
    shared = {name: outputs[name][tuple(map(slice, array.shape))] for name, array in due.items()}
    allowed = tolerances_of(due, tolerance, expected.tolerances, expected.parts)
    for deviation in compare(shared, due, allowed, small.softmax_outputs).outputs:
        if not deviation.passed:
            yield deviation

"""The samples of a network in several shapes, and what they add to a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toolchain.building.size import weights_of
from toolchain.bundles import layout
from toolchain.errors import UsageError
from toolchain.models.judging.reference import Reference
from toolchain.models.load import Model
from toolchain.models.several import shape_of

_MIB = 2.0**20


def shape_with(model: Model, sample: Mapping[str, np.ndarray[Any, Any]], option: str) -> Model:
    """Return the model in the shape of a sample.

    Raises
    ------
    UsageError
        The sample has none of the shapes.
    """
    given = {name: tuple(array.shape) for name, array in sample.items()}
    for shape in model.shapes:
        if {spec.name: spec.shape for spec in shape.inputs} == given:
            return shape
    raise UsageError(
        f"{option}: the network is built in no such shape: "
        + ", ".join(f"{name!r} {list(extents)}" for name, extents in given.items()),
        f"there are: {'; '.join(shape_of(shape) for shape in model.shapes)}",
    )


def check_size(model: Model, references: Sequence[Reference]) -> str:
    """Check that a bundle can hold the samples of all shapes; return what they add to it, for the user.

    Raises
    ------
    UsageError
        They exceed a limit of bundles.
    """
    arrays = [[*each.sample.values(), *each.outputs.values()] for each in references]
    samples = sum(array.nbytes for of_shape in arrays for array in of_shape)
    weights, count = weights_of(model.onnx), len(references)
    told = (
        f"{count} shapes: samples and expected outputs of {samples / _MIB:.1f} MiB, weights of "
        f"{weights / _MIB:.1f} MiB once, and code for each"
    )
    sizes = {
        f"{shape}/{place}.npy": array.nbytes
        for shape, of_shape in enumerate(arrays)
        for place, array in enumerate(of_shape)
    }
    if problem := layout.limit_problem({**sizes, "weights": weights}):
        raise UsageError(f"{told}: {problem}", "list fewer shapes, or smaller ones")
    return told

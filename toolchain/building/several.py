"""The samples of a network in several shapes, and what they add to a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx

from toolchain.bundles import layout
from toolchain.errors import UsageError
from toolchain.models.judging.reference import Reference
from toolchain.models.load import Model
from toolchain.models.multi_shape import shape_of

# Compares the size of a bundle with its network, and says what would make it smaller.

LARGE = 4.0
"""A build mentions its bundle's size if it is more than this many times the network's weights."""
_WORTH = 0.25  # least share of the bundle that an option must save to be mentioned
_MIB = 2.0**20


@dataclass(frozen=True)
class Size:
    """Sizes of a bundle and its network, in bytes.

    Attributes
    ----------
    bundle
        The whole bundle: code, constants, sample and expected outputs.
    weights
        Weights of the network, as in its file.
    transformed
        Bytes that `--winograd off` would save.
    sample
        The sample and its expected outputs.
    """

    bundle: int = 0
    weights: int = 0
    transformed: int = 0
    sample: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the numbers as `toolchain build --json` prints them."""
        return {
            "bundle": self.bundle,
            "weights": self.weights,
            "winograd": self.transformed,
            "sample": self.sample,
        }

    @property
    def text(self) -> str:
        """A sentence for the user about the size; empty if the bundle is small, or small for its network."""
        if self.bundle < _MIB or self.bundle <= LARGE * self.weights or not self.weights:
            return ""
        times = self.bundle / self.weights
        text = f"{self.bundle / _MIB:.1f} MiB, {times:.1f} times the network's weights"
        if self.transformed >= _WORTH * self.bundle:
            text += f"; {(self.bundle - self.transformed) / _MIB:.1f} MiB with --winograd off"
        if self.sample >= _WORTH * self.bundle:
            text += f"; {self.sample / _MIB:.1f} MiB are the sample and its output"
        return text


def weights_of(model: onnx.ModelProto) -> int:
    """Return the size of a network's weights in bytes, in their own types."""
    return sum(_bytes(tensor) for tensor in model.graph.initializer)


def _bytes(tensor: onnx.TensorProto) -> int:
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data)
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    return int(prod(tensor.dims)) * int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


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
    arrays = [[*reference.sample.values(), *reference.outputs.values()] for reference in references]
    samples = sum(array.nbytes for of_shape in arrays for array in of_shape)
    weights, count = weights_of(model.onnx), len(references)
    message = (
        f"{count} shapes: samples and expected outputs of {samples / _MIB:.1f} MiB, weights of "
        f"{weights / _MIB:.1f} MiB once, and code for each"
    )
    sizes = {
        f"{shape}/{place}.npy": array.nbytes
        for shape, of_shape in enumerate(arrays)
        for place, array in enumerate(of_shape)
    }
    if problem := layout.limit_problem({**sizes, "weights": weights}):
        raise UsageError(f"{message}: {problem}", "list fewer shapes, or smaller ones")
    return message

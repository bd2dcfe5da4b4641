"""Compares the size of a bundle with its network, and says what would make it smaller."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx

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
    def said(self) -> str:
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
    return sum(_bytes(each) for each in model.graph.initializer)


def _bytes(tensor: onnx.TensorProto) -> int:
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data)
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    return int(prod(tensor.dims)) * int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)

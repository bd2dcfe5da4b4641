"""How large a bundle is beside the network it was made of, and what would make it smaller."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx

LARGE = 4.0
"""Times the network's weights from which on a build says how large its bundle is."""
_WORTH = 0.25  # of the bundle, that an option must save to be named
_MIB = 2.0**20


@dataclass(frozen=True)
class Size:
    """Bytes of a bundle.

    Attributes
    ----------
    bundle
        All of it: code, constants, sample and expected output.
    weights
        Of the network, as its file has them.
    transformed
        What `--winograd off` would save.
    sample
        Of the sample and the output that is expected of it.
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
        """What a user is told; empty where the bundle is small, or not large beside its network."""
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
    """Return the bytes of a network's weights in their own types."""
    return sum(_bytes(each) for each in model.graph.initializer)


def _bytes(tensor: onnx.TensorProto) -> int:
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data)
    if tensor.data_type == onnx.TensorProto.STRING:
        return sum(map(len, tensor.string_data))
    return int(prod(tensor.dims)) * int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)

"""Quantised layers, each as a network of one function, and what it comes to in integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from toolchain.arrays import Array
from toolchain.lowering.graph.integers import with_integers
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.graph.signed import with_signed_values

OUT_ZERO = 7


@dataclass(frozen=True)
class Quantised:
    """A convolution of bytes, as a network writes it: floats minus a zero point, a factor, rounding.

    Attributes
    ----------
    zero
        Zero point of the input.
    least
        Smallest weight.
    """

    ci: int
    co: int
    size: tuple[int, ...]
    kernel: int
    stride: int = 1
    pad: int = 0
    groups: int = 1
    zero: int = 0
    least: int = -128

    @property
    def weight(self) -> Array:
        """The weight, of all values that it may have."""
        shape = (self.co, self.ci // self.groups, *[self.kernel] * len(self.size))
        return np.random.default_rng(1).integers(self.least, 128, shape).astype(np.float32)

    @property
    def bias(self) -> Array:
        """The bias, in steps of the sums."""
        return np.random.default_rng(2).integers(-3000, 3000, self.co).astype(np.float32)

    @property
    def factor(self) -> np.float32:
        """The factor that takes sums to steps of the output."""
        return np.float32(0.5 / np.sqrt(self.weight[0].size) / 128)

    def inputs(self) -> Array:
        """Return an input with all values that it may have."""
        shape = (1, self.ci, *self.size)
        return np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)

    def expected(self, x: Array) -> Array:
        """Return the output, by numpy."""
        rank, groups = len(self.size), self.groups
        around = [(0, 0), (0, 0), *[(self.pad, self.pad)] * rank]
        wide = np.pad(x.astype(np.int64) - self.zero, around)
        axes = tuple(range(2, 2 + rank))
        windows = np.lib.stride_tricks.sliding_window_view(wide, [self.kernel] * rank, axes)
        windows = windows[(slice(None), slice(None), *[slice(None, None, self.stride)] * rank)]
        sums = []
        for group in range(groups):
            of_group = windows[:, group * self.ci // groups : (group + 1) * self.ci // groups]
            weight = self.weight[group * self.co // groups : (group + 1) * self.co // groups].astype(np.int64)
            over = [1, *range(2 + rank, 2 + 2 * rank)]
            sums.append(np.tensordot(of_group, weight, (over, list(range(1, 2 + rank)))))
        total = np.moveaxis(np.concatenate(sums, -1) + self.bias.astype(np.int64), -1, 1)
        steps = np.rint(total.astype(np.float32) * self.factor) + OUT_ZERO
        return np.clip(steps, 0, 255).astype(np.uint8)

    def network(self, signed: bool, least: int | None = None) -> tvm.IRModule:
        """Return the network for a machine that multiplies unsigned inputs, or signed ones.

        Parameters
        ----------
        least
            Smallest weight that the machine multiplies; None: any.
        """
        builder = relax.BlockBuilder()
        value = relax.Var("x", relax.TensorType((1, self.ci, *self.size), "uint8"))
        convolve = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}[len(self.size)]
        with builder.function("main", [value]):
            with builder.dataflow():
                rounded = builder.emit(quantized(relax.op.astype(value, "float32"), 0))
                floats = builder.emit(relax.op.astype(rounded, "float32"))
                if self.zero:
                    floats = builder.emit(relax.op.subtract(floats, relax.const(float(self.zero))))
                weight, padding = relax.const(self.weight), [self.pad] * 2 * len(self.size)
                call = convolve(floats, weight, self.stride, padding, groups=self.groups)
                sums = builder.emit(call)
                ones = [1] * len(self.size)
                sums = builder.emit(relax.op.add(sums, relax.const(self.bias.reshape(1, -1, *ones))))
                steps = builder.emit(relax.op.multiply(sums, relax.const(self.factor)))
                out = builder.emit(quantized(steps, OUT_ZERO))
                result = builder.emit_output(out)
            builder.emit_func_output(result)
        module = builder.get()
        if not signed:
            return with_integers(module, {"uint8": "int8"})
        return with_integers(with_signed_values(module), {"int8": "int8"}, least)


def quantized(value: relax.Expr, zero: int) -> relax.Expr:
    """Return a value rounded to bytes."""
    return relax.op.quantize(value, relax.const(np.float32(1)), relax.const(np.uint8(zero)), 1, "uint8")


def fused(
    layer: Quantised, signed: bool, target: tvm.target.Target, least: int | None = None
) -> tvm.IRModule:
    """Return a layer's network, fused."""
    return fuse(layer.network(signed, least), target)


LAYERS = (
    Quantised(3, 20, (9, 13), 3, stride=2, pad=1, zero=131),  # few channels, an image
    Quantised(16, 16, (7, 7), 1),
    Quantised(20, 33, (5, 6), 1, zero=3),  # channels that fill no block
    Quantised(16, 24, (6, 14), 3, pad=1, zero=255),
    Quantised(32, 16, (2, 2), 3, pad=1, zero=1),  # tiles of several rows
    Quantised(32, 32, (9, 12), 3, stride=2, pad=1, groups=2, zero=9),
    Quantised(16, 16, (9, 11), 3, pad=1, groups=16, zero=77),
    Quantised(24, 24, (9, 11), 5, stride=2, pad=2, groups=24, zero=200),
    Quantised(8, 8, (6, 9), 7, pad=3, groups=8),
    Quantised(16, 8, (40,), 3, pad=1, zero=5),
    Quantised(8, 12, (5, 4, 6), 3, pad=1, zero=5),
    Quantised(6, 16, (9, 13), 3, pad=1, zero=7),  # blocks that are no power of two
    Quantised(10, 16, (16, 16), 3, pad=1),
    Quantised(12, 40, (3, 3), 3, zero=12),  # one output place: a matrix product
)

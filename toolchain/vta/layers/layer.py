"""An integer convolution as the accelerator computes it: its shape and its values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import shortened
from toolchain.models.quantising.shift_exponents import (
    LEAST_RIGHT,
    MOST_COMMON,
    MOST_DIAGONAL,
    MOST_RIGHT,
)

FIELDS = ("batch", "h", "w", "ic", "oc", "kh", "kw", "ph", "pw", "sh", "sw")
"""Names of the numbers in a shape as text, in the order of Apache TVM's tutorial on VTA."""

MOST_PADDING = 15
"""Largest padding before or after a row: a LOAD has four bits for it."""

_MOST = 1 << 16
_PREFIX = "vta convolution "
_EXAMPLE = "1,56,56,64,64,3,3,1,1,1,1"


@dataclass(frozen=True)
class ConvShape:
    """The shape of a convolution; its attributes are those in `FIELDS`."""

    batch: int
    h: int
    w: int
    ic: int
    oc: int
    kh: int
    kw: int
    ph: int
    pw: int
    sh: int
    sw: int

    def __post_init__(self) -> None:
        """Check that a program can compute the convolution.

        Raises
        ------
        UsageError
            It cannot; the message says why.
        """
        for problem, hint in self._problems():
            raise UsageError(f"convolution {self}: {problem}", hint)

    @property
    def oh(self) -> int:
        """Number of rows of the result."""
        return (self.h + 2 * self.ph - self.kh) // self.sh + 1

    @property
    def ow(self) -> int:
        """Number of columns of the result."""
        return (self.w + 2 * self.pw - self.kw) // self.sw + 1

    @property
    def taps(self) -> int:
        """Number of taps of the kernel: its height times its width."""
        return self.kh * self.kw

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates, without the padding to whole blocks."""
        return self.oh * self.ow * self.oc * self.ic * self.taps * self.batch

    def __str__(self) -> str:
        return ",".join(str(getattr(self, name)) for name in FIELDS)

    def _problems(self) -> list[tuple[str, str]]:
        problems = []
        if self.batch != 1:
            problems.append((f"batch {self.batch}; programs compute one image", "make the batch 1"))
        problems += [
            (f"{name} {getattr(self, name)} is not from 1 to {_MOST - 1}", f"change {name}")
            for name in ("h", "w", "ic", "oc", "kh", "kw", "sh", "sw")
            if not 1 <= getattr(self, name) < _MOST
        ]
        for pad, kernel in (("ph", "kh"), ("pw", "kw")):
            most = min(getattr(self, kernel) - 1, MOST_PADDING)
            if not 0 <= getattr(self, pad) <= most:
                reason = f"{pad} {getattr(self, pad)} is not from 0 to {most}"
                problems.append((reason, f"padding is less than the kernel, and at most {MOST_PADDING}"))
        if not problems and (self.oh < 1 or self.ow < 1):
            problems.append(("the kernel is larger than the image with its padding", "use a smaller kernel"))
        return problems


def read_shape(text: str) -> ConvShape:
    """Parse a shape from text such as `1,56,56,64,64,3,3,1,1,1,1`.

    Raises
    ------
    UsageError
        The text is not a shape, or no program can compute the convolution.
    """
    words = text.split(",")
    if len(words) != len(FIELDS) or not all(_is_number(word) for word in words):
        raise UsageError(
            f"{shortened(text)!r} is not a shape of a convolution",
            f"{len(FIELDS)} whole numbers: {','.join(FIELDS).upper()}, such as {_EXAMPLE}",
        )
    return ConvShape(*(int(word) for word in words))


def definition_of(shape: ConvShape) -> str:
    """Return the definition of a convolution of this shape, for records."""
    return f"{_PREFIX}{shape}"


def shape_of(definition: str) -> ConvShape:
    """Parse the shape from a text that `definition_of` returned.

    Raises
    ------
    UsageError
        The text is not a definition.
    """
    return read_shape(definition.removeprefix(_PREFIX))


def _is_number(word: str) -> bool:
    return word.strip().isascii() and word.strip().isdigit() and len(word.strip()) < 9


@dataclass(frozen=True)
class ConvLayer:
    """A layer: `clip((conv(source, weight) + residual * 2**left + bias) >> right, low, high)`, in int32.

    Attributes
    ----------
    shape
        Shape of the convolution.
    weight
        int8 [oc, ic, kh, kw].
    bias
        int32 [oc]; includes the half that makes the right shift round.
    right
        [oc]: right shifts of the sums.
    left
        [oc]: left shifts of the residual; None without a residual.
    low, high
        Limits of the results.
    """

    shape: ConvShape
    weight: Array
    bias: Array
    right: Array
    left: Array | None = None
    low: int = -127
    high: int = 127

    def __post_init__(self) -> None:
        """Check that the accelerator can represent the values.

        Raises
        ------
        UsageError
            It cannot; the message says which.
        """
        problem = self._problem_of_shapes() or self._problem_of_shifts() or self._problem_of_clip()
        if problem:
            raise UsageError(f"layer {self.shape}: {problem}", "quantise the network again")

    @property
    def common_left(self) -> int:
        """The part of the left shifts, equal for all channels, that the diagonal matrices cannot do."""
        return 0 if self.left is None else max(0, int(self.left.max()) - MOST_DIAGONAL)

    def _problem_of_shapes(self) -> str:
        shape = self.shape
        shapes: dict[str, tuple[int, ...]] = {"weight": (shape.oc, shape.ic, shape.kh, shape.kw)}
        shapes |= dict.fromkeys(("bias", "right", *([] if self.left is None else ["left"])), (shape.oc,))
        for name, expected in shapes.items():
            if (actual := getattr(self, name).shape) != expected:
                return f"{name} is {actual}, not {expected}"
        for name, dtype in (("weight", np.int8), ("bias", np.int32)):
            if (actual_dtype := getattr(self, name).dtype) != dtype:
                return f"{name} is of {actual_dtype}, not {np.dtype(dtype)}"
        return ""

    def _problem_of_shifts(self) -> str:
        most = self.common_left + MOST_DIAGONAL
        bounds = {"right": (self.right, LEAST_RIGHT, MOST_RIGHT)}
        if self.left is not None:
            bounds["left"] = (self.left, self.common_left, min(most, MOST_COMMON + MOST_DIAGONAL))
        for name, (shifts, low, high) in bounds.items():
            if shifts.min() < low or shifts.max() > high:
                return f"{name} shifts from {shifts.min()} to {shifts.max()}; {low} to {high} are possible"
        return ""

    def _problem_of_clip(self) -> str:
        if self.low in (-127, 0) and 1 <= self.high <= 127:
            return ""
        return f"clips to {self.low} and {self.high}; -127 or 0, and 1 to 127 are possible"


# Packs values as in DRAM: in blocks of channels, padded with zeros.


def blocks_of(channels: int, block: int) -> int:
    """Return the number of blocks for a number of channels."""
    return -(-channels // block)


def pack_activation(value: Array, block: int) -> Array:
    """Pack int8 [channels, h, w] to [blocks, h, w, block]."""
    _channels, height, width = value.shape
    filled = _filled(value, block)
    return np.ascontiguousarray(filled.reshape(-1, block, height, width).transpose(0, 2, 3, 1))


def unpack_activation(packed: Array, channels: int) -> Array:
    """Unpack [blocks, h, w, block] to [channels, h, w]."""
    blocks, height, width, block = packed.shape
    return packed.transpose(0, 3, 1, 2).reshape(blocks * block, height, width)[:channels]


def pack_weight(weight: Array, block: int, tile_co: int, tile_ci: int) -> Array:
    """Pack int8 [oc, ic, kh, kw] to tiles, each contiguous in DRAM.

    Returns
    -------
    Array
        [co tiles, ci tiles, tile_co, tile_ci, kh, kw, block of outputs, block of inputs].
    """
    out, into = blocks_of(weight.shape[0], block), blocks_of(weight.shape[1], block)
    height, width = weight.shape[2:]
    filled = _filled(_filled(weight, block).swapaxes(0, 1), block).swapaxes(0, 1)
    split = filled.reshape(out // tile_co, tile_co, block, into // tile_ci, tile_ci, block, height, width)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 4, 6, 7, 2, 5))


def pack_parameters(layer: ConvLayer, block: int) -> Array:
    """Return a layer's parameters as int32 [2, blocks, block]: biases, then right shifts."""
    rows = [_filled(values.astype(np.int32), block) for values in (layer.bias, layer.right)]
    return np.stack(rows).reshape(2, -1, block)


def pack_diagonal(left: Array, common: int, block: int) -> Array:
    """Return diagonal matrices that shift a residual left by `left - common`: int8 [blocks, block, block]."""
    exponents = left.astype(np.int32) - common
    powers = _filled(1 << exponents, block).reshape(-1, block)
    return (powers[:, :, None] * np.eye(block, dtype=np.int32)).astype(np.int8)


def _filled(value: Array, block: int) -> Array:
    missing = -value.shape[0] % block
    return np.pad(value, ((0, missing), *[(0, 0)] * (value.ndim - 1)))


# Computes the result of a layer with numpy: the reference for programs and simulators.


def expected(layer: ConvLayer, source: Array, residual: Array | None = None) -> Array:
    """Compute the result of a layer.

    Parameters
    ----------
    source
        int8 [ic, h, w].
    residual
        int8 [oc, oh, ow]; None if the layer has no residual.

    Returns
    -------
    Array
        int8 [oc, oh, ow].
    """
    sums = convolved(layer.shape, layer.weight, source)
    if layer.left is not None:
        if residual is None:
            raise ValueError("this layer adds a residual, and none was given")
        sums += residual.astype(np.int64) << _across(layer.left)
    sums += _across(layer.bias)
    wrapped = sums.astype(np.int32)  # wraps around like ACC
    shifted = wrapped >> _across(layer.right).astype(np.int32)
    result: Array = np.clip(shifted, layer.low, layer.high).astype(np.int8)
    return result


def convolved(shape: ConvShape, weight: Array, source: Array) -> Array:
    """Compute the sums of a convolution; returns int64 [oc, oh, ow]."""
    padded = np.pad(source, ((0, 0), (shape.ph, shape.ph), (shape.pw, shape.pw))).astype(np.float64)
    sums = np.zeros((shape.oc, shape.oh * shape.ow))
    for y in range(shape.kh):
        for x in range(shape.kw):
            rows = slice(y, y + (shape.oh - 1) * shape.sh + 1, shape.sh)
            columns = slice(x, x + (shape.ow - 1) * shape.sw + 1, shape.sw)
            # Integers below 2**53 are exact in float64, which numpy multiplies fast.
            sums += weight[:, :, y, x].astype(np.float64) @ padded[:, rows, columns].reshape(shape.ic, -1)
    return sums.astype(np.int64).reshape(shape.oc, shape.oh, shape.ow)


def _across(channels: Array) -> Array:
    return channels.astype(np.int64).reshape(-1, 1, 1)

"""A TensorFlow Lite network as plain values, independent of the library that read its file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import shortened
from toolchain.models.spec import MOST_ELEMENTS
from toolchain.quantities import counted

# Layouts of values: TensorFlow Lite has channels last, ONNX's windows want them first.


class ChannelOrder(Enum):
    """Order of a value's dimensions; values of other ranks than 4 have only `LAST`."""

    LAST = "nhwc"
    FIRST = "nchw"


TO_FIRST = (0, 3, 1, 2)
"""Permutation of NHWC that makes NCHW."""

TO_LAST = (0, 2, 3, 1)
"""Permutation of NCHW that makes NHWC; so also the place of each dimension of NHWC in NCHW."""


def placed(axis: int, rank: int, layout: ChannelOrder) -> int:
    """Return the place in a layout of dimension `axis` of a tensor; negative ones count from the end.

    Raises
    ------
    ValueError
        The tensor has no such dimension.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"dimension {axis} of {rank}")
    return TO_LAST[axis % rank] if layout is ChannelOrder.FIRST else axis % rank


def arranged(values: Sequence[int], layout: ChannelOrder) -> list[int]:
    """Return one number for each dimension in the order of a layout."""
    return [values[axis] for axis in TO_FIRST] if layout is ChannelOrder.FIRST else list(values)


@dataclass(frozen=True)
class Quantisation:
    """How integers represent real numbers: `(integer - zero) * scale`.

    Attributes
    ----------
    scale
        float32, one for the tensor or one for each index of dimension `axis`; all finite and positive.
    zero
        int64, of the shape of `scale`.
    axis
        Dimension along which `scale` varies; None: one scale for the whole tensor.
    """

    scale: Array
    zero: Array
    axis: int | None = None

    def equals(self, other: Quantisation) -> bool:
        """Whether both represent every number by the same integer."""
        return (
            np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
            and self.axis == other.axis
        )


@dataclass(frozen=True)
class TfliteTensor:
    """A tensor of the file.

    Attributes
    ----------
    index
        Its place in the file.
    dtype
        Its numpy name.
    quantisation
        None: its values stand for themselves.
    data
        Its bytes if the file stores them, little-endian; of the size that shape and type ask for.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    quantisation: Quantisation | None = None
    data: memoryview | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class TfliteOperator:
    """An operator of the file.

    Attributes
    ----------
    place
        Its place in the file; it runs in this order.
    name
        The schema's name, such as `CONV_2D`.
    inputs, outputs
        Indices of tensors; None for an input that is left out.
    options
        The fields of its options by the schema's names, such as `stride_h`; empty if it has none.
    """

    place: int
    name: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"operator {self.place} ({self.name})"


@dataclass(frozen=True)
class TfliteNetwork:
    """The network of a file; inputs and outputs are indices of tensors.

    Attributes
    ----------
    stored_bytes
        The size of the file.
    """

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stored_bytes: int


# Activations that are part of another operator: limits of its result.

Bounds = tuple[float, float]
"""Least and greatest value."""

FUSED: dict[int, Bounds] = {
    0: (-math.inf, math.inf),  # NONE
    1: (0.0, math.inf),  # RELU
    2: (-1.0, 1.0),  # RELU_N1_TO_1
    3: (0.0, 6.0),  # RELU6
}
"""The schema's `ActivationFunctionType` -> limits. TANH and SIGN_BIT are made by no converter."""


def in_integers(bounds: Bounds, rule: Quantisation, dtype: str) -> Bounds:
    """Return the limits of a quantised tensor's integers: those of its type, and of `bounds`."""
    ends = np.iinfo(dtype)
    low, high = (np.rint(bound / float(rule.scale)) + int(rule.zero) for bound in bounds)
    return max(float(low), float(ends.min)), min(float(high), float(ends.max))


def is_implied(bounds: Bounds, rule: Quantisation, dtype: str) -> bool:
    """Whether rounding to the integers of a quantised tensor limits numbers to `bounds` by itself."""
    ends = np.iinfo(dtype)
    low, high = (np.rint(bound / float(rule.scale)) + int(rule.zero) for bound in bounds)
    return bool(low <= ends.min and high >= ends.max)


# Checks the tensors of a `.tflite` file: types, shapes, stored bytes, scales and zero points.

MOST_TENSORS = 200_000

DTYPES = {
    "BOOL": "bool",
    "FLOAT16": "float16",
    "FLOAT32": "float32",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
}
"""Element types that are read: the schema's name -> numpy's."""

QUANTISED = frozenset({"int8", "int32", "uint8"})
_ADVICE = {
    "INT4": "quantise the weights to int8: int4 is not computed",
    "INT16": "quantise the activations to int8: the form 16x8 is not computed",
}


@dataclass(frozen=True)
class DeclaredTensor:
    """A tensor's entry in the file, before any check."""

    index: int
    name: str
    shape: tuple[int, ...]
    open_shape: tuple[int, ...]
    type: str
    sparse: bool
    sparse_problem: str
    variable: bool
    data: memoryview | None
    scale: Array | None
    has_scale: bool
    zero: Array
    axis: int
    custom: bool

    def __str__(self) -> str:
        return f"tensor {self.index} ({shortened(self.name)!r})"


def checked_tensor(entry: DeclaredTensor, origin: str, *, is_input: bool) -> TfliteTensor:
    """Return the tensor of an entry.

    An input's first dimension may be open: it is as large as the file was converted for, mostly 1. Of other
    open dimensions of computed tensors the shapes that follow decide.

    Raises
    ------
    UsageError
        It is of a type that is not read, sparse, a variable or of an open shape; or its parts contradict
        each other.
    """
    if entry.type not in DTYPES:
        raise UsageError(
            f"{origin}: {entry} is of {entry.type}, which is not supported",
            _ADVICE.get(entry.type, f"convert the network with tensors of {', '.join(DTYPES)}"),
        )
    if entry.sparse:
        why = f", in parts that contradict each other: {entry.sparse_problem}" if entry.sparse_problem else ""
        raise UsageError(f"{origin}: {entry} is sparse{why}", "convert the network with dense weights")
    if entry.variable:
        raise UsageError(
            f"{origin}: {entry} is a variable: it keeps its value from one inference to the next",
            "convert the network with its state as an input and an output",
        )
    if any(extent < 1 for extent in entry.shape) or (is_input and -1 in entry.open_shape[1:]):
        shown = list(entry.open_shape or entry.shape)
        raise UsageError(
            f"{origin}: {entry} has the open or empty shape {shown}",
            "convert the network with a fixed shape for each input",
        )
    if math.prod(entry.shape) > MOST_ELEMENTS:
        raise UsageError(f"{origin}: {entry} is broken: no memory holds its shape", "convert it again")
    dtype = DTYPES[entry.type]
    size = math.prod(entry.shape) * np.dtype(dtype).itemsize
    if entry.data is not None and len(entry.data) != size:
        raise UsageError(
            f"{origin}: {entry} is broken: it needs {size} bytes, the file has {len(entry.data)}",
            "convert or download it again",
        )
    rule = _quantisation(entry, dtype, origin)
    return TfliteTensor(entry.index, entry.name, entry.shape, dtype, rule, entry.data)


def _quantisation(entry: DeclaredTensor, dtype: str, origin: str) -> Quantisation | None:
    if entry.custom:
        raise UsageError(f"{origin}: {entry} is quantised in a form of its maker's own", "convert it again")
    if not entry.has_scale or entry.scale is None or dtype not in QUANTISED:
        return None
    scale, zero = entry.scale, entry.zero
    if zero.size == 0 or (zero.size == 1 < scale.size):
        zero = np.full(scale.shape, zero[0] if zero.size else 0, np.int64)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise _broken(entry, origin, f"its scale is {scale[~((scale > 0) & np.isfinite(scale))][0]}")
    ends = np.iinfo(dtype)
    if zero.shape != scale.shape or zero.min() < ends.min or zero.max() > ends.max:
        raise _broken(entry, origin, "its zero points do not fit")
    if scale.size == 1:
        return Quantisation(scale.reshape(()), zero.reshape(()))
    if not 0 <= entry.axis < len(entry.shape) or entry.shape[entry.axis] != scale.size:
        raise _broken(
            entry,
            origin,
            f"{counted(scale.size, 'scale')} along dimension {entry.axis} of {list(entry.shape)}",
        )
    return Quantisation(scale, zero, entry.axis)


def _broken(entry: DeclaredTensor, origin: str, why: str) -> UsageError:
    return UsageError(f"{origin}: the quantisation of {entry} is broken: {why}", "quantise the network again")

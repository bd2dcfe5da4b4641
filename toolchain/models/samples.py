"""Sample inputs: seeded random ones, and arrays from `.npy` files."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from toolchain.errors import UsageError
from toolchain.files.plain import open_plain
from toolchain.models.spec import TensorSpec

# Arrays in `.npy` files.

_MOST_HEADER = 10_000  # bytes; as numpy's own
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (
        3,
        0,
    ): np.lib.format.read_array_header_2_0,  # differs only in the encoding of field names
}


def read_array(file: Path, option: str) -> np.ndarray:
    """Return the array of a `.npy` file, in C order and native byte order.

    Raises
    ------
    UsageError
        The file cannot be read, is not a `.npy` file, or contains Python objects.
    """
    how = "write it by numpy.save(FILE, array)"
    if not file.is_file():
        raise UsageError(f"{option}: {file}: {'not a file' if file.exists() else 'no such file'}", how)
    try:
        with open_plain(file) as opened:
            start = opened.read(12)
        if start[:6] != b"\x93NUMPY":
            raise UsageError(f"{option}: {file} is not a .npy file", how)
        if start[6:7] != b"\1" and int.from_bytes(start[8:], "little") > _MOST_HEADER:
            raise ValueError("its header is too long")  # numpy would allocate it before checking
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # for files that Python 2 wrote
            _check_shape(file)
            warnings.simplefilter("error", RuntimeWarning)  # numpy's only sign of a size beyond 64 bits
            # Mapped, the header's shape is checked against the file's size before memory is taken.
            mapped = np.load(file, mmap_mode="r", allow_pickle=False)
            return np.array(mapped, dtype=mapped.dtype.newbyteorder("="), order="C")
    except UsageError:
        raise
    except Exception as error:  # the header is a Python expression, and numpy raises any error for a bad one
        message = error.strerror if isinstance(error, OSError) else str(error)
        reason = message or type(error).__name__
        if "Object arrays" in reason or "object" in reason:
            raise UsageError(f"{option}: {file} holds Python objects, not numbers", how) from error
        raise UsageError(f"{option}: {file} cannot be read: {reason}", how) from error


def _check_shape(file: Path) -> None:
    """Refuse negative extents: numpy takes -1 for "the rest", and may then divide by zero."""
    with open_plain(file) as opened:
        version = np.lib.format.read_magic(opened)
        if (read := _HEADERS.get(version)) is None:
            raise ValueError(f"its format is {'.'.join(map(str, version))}, which numpy does not write")
        shape, _, _ = read(opened)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"its shape is {list(shape)}")


Inputs = dict[str, np.ndarray]
T = TypeVar("T")


class UnusableSampleError(UsageError):
    """The network has no comparable result for these inputs; other inputs may work.

    Parameters
    ----------
    reason
        Why, as a clause.
    """

    def __init__(self, message: str, hint: str, reason: str) -> None:
        super().__init__(message, hint)
        self.reason = reason


FLOATS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal floats": lambda generator, shape: generator.standard_normal(shape, dtype=np.float32),
    # The first is for logarithms, roots and arc sines, the second for functions defined from 1 on.
    "floats between 0 and 1": lambda generator, shape: generator.random(shape, dtype=np.float32),
    "floats between 1 and 2": lambda generator, shape: 1 + generator.random(shape, dtype=np.float32),
}
"""Distributions of floats in the order of trial; all but the first are uniform."""


@dataclass(frozen=True)
class Sort:
    """How the values of seeded inputs are drawn.

    Attributes
    ----------
    low, high
        The range of integers, without `high`. Booleans are drawn from 0 and 1.
    floats
        The distribution of floats: a key of `FLOATS`.
    bytes
        Whether 8-bit integers are drawn from their whole range instead: they are mostly pictures, or what
        a quantised network has in place of floats.
    """

    low: int = 0
    high: int = 4
    floats: str = "normal floats"
    bytes: bool = False

    def shown(self, specs: Sequence[TensorSpec]) -> str:
        """Describe the values of these inputs, such as `normal floats, integers 0 and 1`."""
        counted = [spec for spec in specs if not (self.bytes and spec.dtype in BYTES)]
        kinds = {np.dtype(spec.dtype).kind for spec in counted}
        phrases = []
        if "f" in kinds:
            phrases.append(self.floats)
        if len(counted) < len(specs):
            phrases.append("8-bit integers over their whole range")
        if integers := kinds & set("iub"):
            most = min(self.high - 1, 1) if integers == {"b"} else self.high - 1
            values = {0: f"all {self.low}", 1: "0 and 1"}.get(most - self.low, f"{self.low} to {most}")
            phrases.append(f"{'booleans' if integers == {'b'} else 'integers'} {values}")
        return ", ".join(phrases)


BYTES = frozenset({"int8", "uint8"})

SORTS = tuple(
    Sort(low, high, floats, whole)
    for floats in FLOATS
    for whole in (True, False)
    # 0 to 3 are valid indices of almost any table; masks and token types are 0 and 1; divisors 1.
    for low, high in ((0, 4), (0, 2), (1, 2), (0, 1))
)
"""Sorts of samples, tried in this order until the network can use one."""


def sorts_for(specs: Sequence[TensorSpec]) -> list[Sort]:
    """Return the sorts of samples that differ for inputs of these types, in the order of trial."""
    sorts: dict[str, Sort] = {}
    for sort in SORTS:
        sorts.setdefault(sort.shown(specs), sort)
    return list(sorts.values())


@dataclass(frozen=True)
class Usable(Generic[T]):
    """The first sort of inputs that a network can use.

    Attributes
    ----------
    result
        The result of the attempt with this sort.
    drawn
        The sort, in words.
    refused
        Sort in words -> why the network could not use it, for the sorts tried before.
    """

    sort: Sort
    result: T
    drawn: str
    refused: dict[str, str]


def first_usable(specs: Sequence[TensorSpec], attempt: Callable[[Sort], T]) -> Usable[T]:
    """Return the result of `attempt` for the first sort with which it raises no `UnusableSampleError`.

    Raises
    ------
    UsageError
        No sort is usable; the message says why the first one is not, and which others were tried.
    """
    refused: dict[str, UnusableSampleError] = {}
    for sort in sorts_for(specs):
        drawn = sort.shown(specs)
        try:
            result = attempt(sort)
        except UnusableSampleError as error:
            refused[drawn] = error
            continue
        return Usable(sort, result, drawn, {sample: refusal.reason for sample, refusal in refused.items()})
    first, *others = refused
    also = f"; nor with {'; '.join(others)}" if others else ""
    reason = refused[first]
    raise UsageError(f"{reason.message} (tried with {first}{also})", reason.hint) from reason


def samples(specs: Sequence[TensorSpec], seed: int = 0, sort: Sort = SORTS[0]) -> Inputs:
    """Return an array for each input, the same for the same seed, name, shape, dtype and sort."""
    return {spec.name: _sample(spec, seed, sort) for spec in specs}


def _sample(spec: TensorSpec, seed: int, sort: Sort) -> np.ndarray:
    digest = hashlib.sha256(f"{seed}/{spec.name}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    if np.issubdtype(np.dtype(spec.dtype), np.floating):
        return FLOATS[sort.floats](generator, spec.shape).astype(spec.dtype)
    if sort.bytes and spec.dtype in BYTES:
        ends = np.iinfo(spec.dtype)
        return generator.integers(ends.min, ends.max + 1, spec.shape).astype(spec.dtype)
    high = min(sort.high, 2) if spec.dtype == "bool" else sort.high
    return generator.integers(sort.low, high, spec.shape).astype(spec.dtype)

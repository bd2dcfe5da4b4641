"""The interface of an algorithm; `table` has one object for each."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import TypeAdapter
from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.layout import Layout, Layouts, dense_layout
from toolchain.backends.packed.machine import Loads, Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read, shape_of
from toolchain.backends.packed.recognise.transposed import Transposed

# A choice: an algorithm with its parameters, which a tuner selects and a record stores.

Order = Literal["rows", "channels"]
"""Outer parallel axis: rows of the output, or its channels (then each thread reads its own weights)."""

# The keys of a payload, with the values for algorithms that lack the knob.
_KEYS: Mapping[str, object] = {
    "blocks": 1,
    "columns": 1,
    "depth": 0,
    "flat": False,
    "order": "rows",
    "rows": 1,
    "tile": (),
}
# Keys that a payload has only if the value differs: they were added later, for devices.
_LATER: Mapping[str, object] = {"arithmetic": "fma", "group": (), "loads": "inputs"}


_NONE = object()


def knob(key: str, default: Any = MISSING) -> Any:
    """Return a field of a choice that records store under another key than the field's name."""
    return field(default=default, metadata={"key": key})


@dataclass(frozen=True)
class Choice:
    """The parameters with which one task is computed; each algorithm has a subclass.

    Attributes
    ----------
    algorithm
        Name of the algorithm.
    group
        Work items of a group along the last axes of the computed tensor, the last axis first. Empty lets the
        code generator decide; always empty on CPUs.
    loads
        Operand that a tile loads first and keeps in registers for all its products.
    """

    algorithm: ClassVar[str]
    group: tuple[int, ...] = field(default=(), kw_only=True)
    loads: Loads = field(default="inputs", kw_only=True)

    @property
    def knobs(self) -> dict[str, Any]:
        """Every key of a record's payload except the algorithm; the same keys for all algorithms."""
        own = {_key(own): getattr(self, own.name) for own in fields(self)}
        return {**_KEYS, **{key: value for key, value in own.items() if _LATER.get(key, _NONE) != value}}

    def to_json(self) -> str:
        """Return the choice as the payload of a record."""
        payload = {"algorithm": self.algorithm, **self.knobs}
        return json.dumps(payload, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_knobs(cls, knobs: Mapping[str, object]) -> Self:
        """Return the choice with these knobs, as read from a record.

        Raises
        ------
        ValueError
            The algorithm has no such knob, or the knob no such value.
        """
        own = {_key(each): each.name for each in fields(cls)}
        for key, value in knobs.items():
            if key not in own and (key not in _KEYS or json.dumps(value) != json.dumps(_KEYS[key])):
                raise ValueError(f"unknown: {key}={value}")
        named = {own[key]: value for key, value in knobs.items() if key in own}
        return TypeAdapter(cls).validate_json(json.dumps(named), strict=True)


def _key(own: Field[Any]) -> str:
    return str(own.metadata.get("key", own.name))


# The estimated cost of a convolution: time, and bytes of weights.
#
#     computing = FLOPs / rate + values transformed / rate
#     reading   = bytes that no cache holds / bandwidth
#     seconds   = the longer of the two + what is exposed of the shorter
#
# for the generators fetch weights ahead.
#
# An estimate only has to order the algorithms of one layer. Records of measurements overrule it.

# Of estimates within this factor, the one with fewer bytes of weights wins; fitted like `Rates`.
_CLOSE = 1.1

CHAINS = 8
"""Independent multiply-adds that keep two units with four cycles' latency busy.

Of the optimisation manuals of Intel and AMD; Arm's cores need fewer.
"""


@dataclass(frozen=True)
class Cost:
    """An estimated cost: seconds, and bytes of packed weights."""

    seconds: float
    weights: int

    def beats(self, other: Cost) -> bool:
        """Return whether this is clearly faster, or about as fast with smaller weights."""
        if self.weights == other.weights:
            return self.seconds < other.seconds
        if self.weights < other.weights:
            return self.seconds <= other.seconds * _CLOSE
        return self.seconds * _CLOSE < other.seconds


def seconds(computing: float, reading: float, exposed: float) -> float:
    """Return the time of overlapping computing and reading; `exposed` of the shorter is not hidden."""
    return max(computing, reading) + exposed * min(computing, reading)


def missed(size: float, machine: Machine) -> float:
    """Return the share of `size` bytes that the cache has evicted before they are read again."""
    cache = machine.rates.cache or machine.cache
    return min(1.0, max(0.0, (size - cache / 2) / cache))


def padded(channels: int, block: int) -> int:
    """Return the number of channels, rounded up to full blocks."""
    return -(-channels // block) * block


C = TypeVar("C", bound=Contraction)
W = TypeVar("W", bound=Convolution | Transposed)
K = TypeVar("K", bound=Choice)


class Algorithm(ABC, Generic[C, K]):
    """A way to compute contractions of one kind.

    Attributes
    ----------
    choice
        Type of its choices.
    values
        Layout of its input and output: blocks of channels (`packed`), the network's own (`plain`), or the
        layout that the neighbours use (`either`).
    exact
        Whether it sums the products as the definition does, with the same kind of rounding errors;
        `--winograd off` excludes the others.
    full_blocks
        Whether it reads its input in full blocks even if it has fewer channels than a block.
    any_products
        Whether it can use instructions that add several products to each sum, or keep sums of another type.
    """

    choice: type[K]
    values: ClassVar[Literal["packed", "plain", "either"]] = "plain"
    exact: ClassVar[bool] = True
    full_blocks: ClassVar[bool] = False
    any_products: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the algorithm in choices, records and rules."""
        return self.choice.algorithm

    @abstractmethod
    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether at least one choice of this algorithm computes the contraction."""

    @abstractmethod
    def default(self, contraction: C, machine: Machine) -> K | None:
        """Return the choice that builds use without a record; None if there is no good one."""

    @abstractmethod
    def candidates(self, contraction: C, machine: Machine) -> list[K]:
        """Return the choices that a tuner may measure, the most promising first."""

    @abstractmethod
    def legal(self, choice: K, contraction: C, machine: Machine) -> bool:
        """Return whether a choice computes a contraction for which `applies` is true."""

    def cost(self, choice: K, contraction: C, machine: Machine) -> Cost | None:
        """Return the estimated cost of a choice; None if this algorithm has no cost model."""
        del choice, contraction, machine
        return None

    def source(self, contraction: C) -> tirx.Buffer | None:
        """Return the operand that must be packed; None if the algorithm reads all operands as they are."""
        del contraction
        return None

    def halo(self, contraction: C, choice: K, machine: Machine) -> tuple[int, ...]:
        """Return the padding needed around the packed operand: before each axis, then after each axis."""
        del contraction, choice, machine
        return ()

    def constant(self, param: tirx.Buffer, contraction: C, machine: Machine) -> Layout | None:
        """Return the layout of a constant that is not the weight; None for the plain layout."""
        del param, contraction, machine
        return None

    @abstractmethod
    def weight(self, value: Array, contraction: C, choice: K, machine: Machine, input_lanes: int) -> Array:
        """Return a constant weight, packed in the order in which the function reads it.

        Parameters
        ----------
        input_lanes
            Number of channels in a block of the input; 1 if the input is plain.
        """

    @abstractmethod
    def function(
        self, read: Read, contraction: C, choice: K, layouts: Layouts, machine: Machine
    ) -> tirx.PrimFunc:
        """Return the generated function, with the element-wise epilogue of the contraction."""


class PackedAlgorithm(Algorithm[W, K]):
    """An algorithm for convolutions on packed values."""

    values = "packed"

    def source(self, contraction: W) -> tirx.Buffer | None:
        """Return the convolution's input."""
        return contraction.x

    def halo(self, contraction: W, choice: K, machine: Machine) -> tuple[int, ...]:
        """Return the padding of the convolution on all sides."""
        del choice, machine
        return contraction.pads

    def constant(self, param: tirx.Buffer, contraction: W, machine: Machine) -> Layout | None:
        """Return the packed layout for a constant with the output's rank and channels, else None."""
        shape = shape_of(param)
        if len(shape) == len(contraction.out) + 2 and shape[1] == contraction.co:
            return dense_layout(machine.lanes, len(shape))
        return None

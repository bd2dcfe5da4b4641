"""A kernel as source code, with the launch that a network makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

# Facts about a kernel that its source code shows without a compiler.

_BYTES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4}
_BYTES |= {"long": 8, "ulong": 8, "double": 8, "bool": 1, "size_t": 8}


@dataclass(frozen=True)
class Language:
    """Regular expressions for the source code of kernels of one kind of device.

    Attributes
    ----------
    array
        Matches the declaration of a private array; its groups are the element type, the vector width (or
        nothing) and the length.
    vector
        Matches a vector load or store; its group is the number of elements.
    half
        Matches the type float16.
    barrier
        Text of a call of the work group's barrier.
    """

    array: re.Pattern[str]
    vector: re.Pattern[str]
    half: re.Pattern[str]
    barrier: str

    def private_bytes(self, source: str) -> int:
        """Return the bytes of the private arrays of a work item."""
        return sum(
            _BYTES[kind] * (4 if width == "3" else int(width or 1)) * int(count)
            for kind, width, count in self.array.findall(source)
        )

    def vector_width(self, source: str) -> int:
        """Return the number of elements of the widest vector load or store; 1 without vectors."""
        return max((int(width) for width in self.vector.findall(source)), default=1)


OPENCL_C = Language(
    array=re.compile(rf"(?m)^\s*(?:__private\s+)?\b({'|'.join(_BYTES)})(2|3|4|8|16)?\s+\w+\[(\d+)\];"),
    vector=re.compile(r"\bv(?:load|store)(?:_half)?(2|3|4|8|16)\b"),
    half=re.compile(r"\bhalf\d*\b"),
    barrier="barrier(",
)

CUDA_CPP = Language(
    array=re.compile(
        r"(?m)^\s*(?:alignas\(\d+\) )?(?:signed |unsigned )?\b"
        r"(char|short|half|int|float|double)(2|3|4)?\s+\w+\[(\d+)\];"
    ),
    vector=re.compile(r"\*\((?:u?char|u?short|u?int|half|float|double)(2|4)\*\)"),
    half=re.compile(r"\bhalf\d*\b"),
    barrier="__syncthreads(",
)


Extents = tuple[int, int, int]


@dataclass(frozen=True)
class Resources:
    """Needs of a kernel's machine code, as its compiler reports them.

    Attributes
    ----------
    architecture
        Architecture of the machine code, such as `sm_90`.
    registers
        Number of registers of a work item.
    spilled_bytes
        Bytes that a work item writes to memory and reads back since registers do not suffice.
    stack_bytes
        Memory of a work item for arrays that do not fit into registers.
    local_bytes
        Local (shared) memory of a work group.
    """

    architecture: str
    registers: int
    spilled_bytes: int
    stack_bytes: int
    local_bytes: int


@dataclass(frozen=True)
class Kernel:
    """The source code of a kernel, and the size of its launch.

    Attributes
    ----------
    source
        Source code of this function alone, as TVM generates it.
    group
        Size of a work group in work items, along x, y and z.
    groups
        Number of work groups of the launch, along x, y and z.
    arguments
        Size of each buffer argument in bytes.
    language
        Language of the source code.
    resources
        What its machine code needs, for each architecture; empty if the board's driver compiles it.
    """

    name: str
    source: str
    group: Extents
    groups: Extents
    arguments: tuple[int, ...] = ()
    language: Language = OPENCL_C
    resources: tuple[Resources, ...] = ()

    @property
    def items_in_group(self) -> int:
        """Number of work items of a work group."""
        return prod(self.group)

    @property
    def items(self) -> int:
        """Number of work items of the launch."""
        return self.items_in_group * prod(self.groups)

    @property
    def vector_width(self) -> int:
        """Number of elements of the widest vector load or store; 1 without vectors."""
        return self.language.vector_width(self.source)

    @property
    def private_bytes(self) -> int:
        """Bytes of the private arrays of a work item: mostly sums.

        On a Mali, more than 16 registers of 16 bytes cannot all stay in registers: the rest spills.
        """
        return self.language.private_bytes(self.source)

    @property
    def computes_half(self) -> bool:
        """Whether the source code uses float16."""
        return self.language.half.search(self.source) is not None

    @property
    def barriers(self) -> int:
        """Number of barriers in the source code, at which the work items of a group wait for each other."""
        return self.source.count(self.language.barrier)


# Models of devices, which predict the time of a kernel without a board.


class Prediction(Protocol):
    """The prediction of a model for one kernel.

    Attributes
    ----------
    ms
        Milliseconds of a launch; None if the model cannot predict it, then `problem` has the reason.
    """

    @property
    def ms(self) -> float | None: ...

    @property
    def problem(self) -> str: ...

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as a JSON object."""

    def cells(self) -> Sequence[str]:
        """Return the cells of a table, one for each of the model's columns."""


class OpenModel(Protocol):
    """A started model, which answers for kernels."""

    def ask(self, kernels: Iterable[Kernel]) -> Sequence[Prediction]:
        """Return a prediction for each kernel, in the same order.

        Raises
        ------
        MissingError
            The model needs something that this machine lacks.
        ToolchainError
            The model fails.
        """


@dataclass(frozen=True)
class KernelModel:
    """A model of a device.

    Attributes
    ----------
    name
        Name of the runner that uses it; its records name it in place of a board.
    device
        Device that it models, such as `opencl:mali-t860`.
    open
        Starts the model; leaving the context ends it.
    trial_s
        Seconds for one candidate, approximately.
    columns
        Headings of the columns for `Prediction.cells`.
    note
        Caveat about all of its predictions, for users.
    unjudged
        Number types that it cannot predict, each with the reason.
    half_note
        Caveat about kernels that use float16; empty for none.
    cache_folder
        Returns the folder below the cache with this version's results; None if it keeps none.
    """

    name: str
    device: str
    open: Callable[[], AbstractContextManager[OpenModel]]
    trial_s: float
    columns: tuple[str, ...]
    note: str
    unjudged: dict[str, str]
    half_note: str = ""
    cache_folder: Callable[[], Path] | None = None

"""A kernel's source, and the machine code that a compiler for a GPU makes of a function's kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelSource:
    """The source of a kernel, and the arguments of its launch.

    Attributes
    ----------
    types
        Types of its arguments: `handle` for memory of the device, else types such as `int32`.
    extents
        Meanings of its last arguments in the launch: numbers of groups (`blockIdx.x` …), and of items in a
        group (`threadIdx.x` …).
    source
        Complete source in the dialect of the device.
    """

    name: str
    types: tuple[str, ...]
    extents: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class MachineCode:
    """The machine code of a function's kernels for one architecture of a kind of device.

    Attributes
    ----------
    architecture
        Number of the architecture, as the library stores it.
    compiler
        Version of the compiler, as a number that drivers compare with their own: 13000 for CUDA 13.0.
    """

    architecture: int
    compiler: int
    code: bytes


@dataclass(frozen=True)
class KernelUnit:
    """The kernels of one function, and their machine code; no code for kernels that drivers compile."""

    kernels: tuple[KernelSource, ...] = ()
    codes: tuple[MachineCode, ...] = ()


NO_KERNELS = KernelUnit()

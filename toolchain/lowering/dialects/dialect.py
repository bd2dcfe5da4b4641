"""A dialect of kernel source: how TVM's source for a kind of device is generated and corrected."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.sym import Analyzer

from toolchain.devices.kernel import Language, Resources
from toolchain.lowering.dialects.literals import Forms
from toolchain.lowering.dialects.source import KernelSource, KernelUnit, MachineCode

# A vector in memory: whether an index is a ramp, and whether a ramp begins at a multiple of its lanes.


def is_ramp(index: Any) -> bool:
    """Return whether an index is that of several numbers, one for each lane."""
    return isinstance(index, tirx.Ramp)


def is_aligned(ramp: Any) -> bool:
    """Return whether a ramp begins at a multiple of its number of lanes: TVM's own rule (codegen_c.cc)."""
    analyzer: Any = Analyzer()
    first, lanes = analyzer.modular_set(ramp.base), int(ramp.lanes)
    return bool(first.coeff % lanes == 0 and first.base % lanes == 0)


@dataclass(frozen=True)
class Dialect:
    """The generation of kernel source for a kind of device.

    Attributes
    ----------
    language
        Facts that can be read from the source without a compiler.
    format
        TVM's name of the source format, for `inspect_source`.
    hook
        Name of the global function that TVM calls to replace the source it embeds.
    definition
        Matches the beginning of a kernel's definition; its group is the name.
    declaration
        Matches a forward declaration of a kernel, which listings leave out.
    forms
        Spelling of floating-point constants.
    rewritten
        Rewrites lowered kernels for TVM's code generator; returns a new module.
    sections
        Splits the source of a module into the complete source of each kernel, by name.
    finished
        Makes the final source of a kernel, in which constants are already written.
    prepare
        Registers the dialect's rules with TVM, once in a process, before functions are lowered.
    machine_code
        Compiles the kernels of a function, for each architecture of a target. None if drivers compile them.
    compilers
        Says by which compilers, of which versions, the machine code for a target is made. None: as above.
    resources
        Says what the machine code of a function's kernels needs, for each kernel by name and for each
        architecture of a target. None if drivers compile them.
    container
        Makes what a library embeds, from the kernels and machine code of its functions and a comment that
        names them. None if libraries embed the sources themselves.
    """

    language: Language
    format: str
    hook: str
    definition: re.Pattern[str]
    declaration: re.Pattern[str]
    forms: Forms
    rewritten: Callable[[tvm.IRModule], tvm.IRModule]
    sections: Callable[[str], Mapping[str, str]]
    finished: Callable[[str], str]
    prepare: Callable[[], None]
    machine_code: Callable[[Sequence[KernelSource], tvm.target.Target], tuple[MachineCode, ...]] | None = None
    compilers: Callable[[tvm.target.Target], str] | None = None
    resources: (
        Callable[[Sequence[KernelSource], tvm.target.Target], Mapping[str, tuple[Resources, ...]]] | None
    ) = None
    container: Callable[[Sequence[KernelUnit], str], bytes] | None = None

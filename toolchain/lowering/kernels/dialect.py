"""A dialect of kernel source: what TVM writes for a kind of device, and what is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import tvm

from toolchain.devices.language import Language
from toolchain.lowering.kernels.literals import Forms


@dataclass(frozen=True)
class Dialect:
    """How kernels are written for a kind of device.

    Attributes
    ----------
    language
        What their source tells without a compiler.
    format
        TVM's name of the source, for `inspect_source`.
    hook
        TVM asks the global function of this name what to embed for the source of its own.
    definition
        Begins the definition of a kernel; its group is the name.
    declaration
        Declares a kernel that is defined further down; people do without.
    forms
        How floating-point constants are written.
    rewritten
        Returns lowered kernels as TVM's generator of source takes them, a new module.
    sections
        Returns from the source of a module that of each kernel by its name, with all that it needs.
    finished
        Returns the source of a kernel, constants included, as its compiler gets it.
    prepare
        Tells TVM what it needs for this dialect, once in a process, before functions are lowered.
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

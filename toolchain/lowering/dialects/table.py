"""The dialects of kernel source, by kind of device."""

from __future__ import annotations

from functools import cache

import tvm

from toolchain.devices.by_kind import KindTable
from toolchain.errors import ToolchainError
from toolchain.lowering.dialects.cuda import CUDA
from toolchain.lowering.dialects.dialect import Dialect
from toolchain.lowering.dialects.opencl import OPENCL

DIALECTS: KindTable[Dialect] = KindTable("dialect", {"opencl": OPENCL, "cuda": CUDA})


def dialect_of(target: tvm.target.Target) -> Dialect:
    """Return the dialect of a target's device, with TVM prepared for it.

    Raises
    ------
    ToolchainError
        No dialect is known for the kind of device.
    """
    return _prepared(str(target.kind.name))


@cache
def _prepared(kind: str) -> Dialect:
    dialect = DIALECTS.find(kind)
    if dialect is None:
        raise ToolchainError(f"no dialect of kernel source is known for devices of kind {kind}")
    dialect.prepare()
    return dialect

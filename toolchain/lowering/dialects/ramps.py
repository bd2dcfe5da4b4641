"""A vector in memory: whether an index is a ramp, and whether a ramp begins at a multiple of its lanes."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.sym import Analyzer


def is_ramp(index: Any) -> bool:
    """Return whether an index is that of several numbers, one for each lane."""
    return isinstance(index, tirx.Ramp)


def is_aligned(ramp: Any) -> bool:
    """Return whether a ramp begins at a multiple of its number of lanes: TVM's own rule (codegen_c.cc)."""
    analyzer: Any = Analyzer()
    first, lanes = analyzer.modular_set(ramp.base), int(ramp.lanes)
    return bool(first.coeff % lanes == 0 and first.base % lanes == 0)

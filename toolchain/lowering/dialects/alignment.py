"""Splits vectors in memory that may lie at an address that is not a multiple of their size.

CUDA C++ loads and stores a vector at such addresses only; TVM writes a vector wherever numbers lie side by
side, as OpenCL's `vload4` takes them.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from toolchain import tvm_compat


def with_aligned_vectors(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module of kernels whose vectors in memory are aligned; others are loads and stores of numbers."""
    return tvm.IRModule({name: _aligned(func) for name, func in module.functions.items()}, attrs=module.attrs)


def _aligned(func: Any) -> Any:
    def loaded(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        indices = [mutator.mutate(each) for each in node.indices]
        if _is_aligned(indices):
            return tirx.BufferLoad(node.source, indices)
        each = [tirx.BufferLoad(node.source, place) for place in _places(indices)]
        return tirx.Shuffle(each, list(range(len(each))))

    def stored(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        value, indices = mutator.mutate(node.value), [mutator.mutate(each) for each in node.indices]
        if _is_aligned(indices):
            return tirx.BufferStore(node.buffer, value, indices)
        vector = tirx.Var("vector", value.ty)
        numbers = [
            tirx.BufferStore(node.buffer, tirx.Shuffle([vector], [lane]), place)
            for lane, place in enumerate(_places(indices))
        ]
        return tirx.SeqStmt([tirx.Bind(vector, value), *numbers])

    return func.with_body(tvm_compat.mutated(func.body, [(tirx.BufferStore, stored), (TensorLoad, loaded)]))


def _is_aligned(indices: list[Any]) -> bool:
    """Return whether it is one number, or a vector whose first number has a place that is a multiple of its lanes."""
    last = indices[-1] if indices else None
    if not isinstance(last, tirx.Ramp) or int(last.stride) != 1:  # TVM splits vectors of other strides
        return True
    analyzer: Any = Analyzer()
    first, lanes = analyzer.modular_set(last.base), int(last.lanes)
    return first.coeff % lanes == 0 and first.base % lanes == 0


def _places(indices: list[Any]) -> list[list[Any]]:
    last: Any = indices[-1]
    return [[*indices[:-1], last.base + lane] for lane in range(int(last.lanes))]

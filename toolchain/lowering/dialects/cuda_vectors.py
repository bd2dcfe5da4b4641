"""Rewrites what TVM writes of vectors and CUDA C++ does not have.

- Vectors in memory must lie at a multiple of their size. TVM writes them wherever numbers lie side by side,
  as OpenCL's `vload4` takes them: those that may be misaligned become loads and stores of numbers.
- TVM's generator of CUDA C++ makes a vector of numbers, but not of lanes of several vectors: such shuffles
  take the numbers out first.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.lowering.dialects.ramps import is_aligned, is_ramp


def with_cuda_vectors(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module of kernels that use vectors as CUDA C++ has them."""
    return tvm.IRModule(
        {name: _rewritten(func) for name, func in module.functions.items()}, attrs=module.attrs
    )


def _rewritten(func: Any) -> Any:
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
        bind: Any = tirx.Bind
        return tirx.SeqStmt([bind(vector, value), *numbers])

    def shuffled(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        vectors, indices = (
            [mutator.mutate(each) for each in node.vectors],
            [int(each) for each in node.indices],
        )
        numbers = [
            tirx.Shuffle([vector], [lane]) if vector.ty.dtype.lanes > 1 else vector
            for vector in vectors
            for lane in range(vector.ty.dtype.lanes)
        ]
        if len(indices) == 1:
            return numbers[indices[0]]
        return tirx.Shuffle([numbers[index] for index in indices], list(range(len(indices))))

    rules = [(tirx.BufferStore, stored), (TensorLoad, loaded), (tirx.Shuffle, shuffled)]
    return func.with_body(tvm_compat.mutated(func.body, rules))


def _is_aligned(indices: list[Any]) -> bool:
    """Return whether it is one number, or a vector whose place is a multiple of its number of lanes."""
    last: Any = indices[-1] if indices else None
    if not is_ramp(last) or int(last.stride) != 1:  # TVM splits vectors of other strides
        return True
    return is_aligned(last)


def _places(indices: list[Any]) -> list[list[Any]]:
    last: Any = indices[-1]
    return [[*indices[:-1], last.base + lane] for lane in range(int(last.lanes))]

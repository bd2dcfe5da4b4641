"""Rewrites booleans in the memory of kernels to bytes that are 0 or 1, and loads of bytes to vectors.

OpenCL C has no `bool` in memory shared with the host, and no vectors of it. TVM writes `__global bool*`
nevertheless, and stores comparisons of vectors, whose lanes are -1 if true. Bytes that it cannot load at once
it packs into an `int`, as in CUDA, but OpenCL C needs a vector.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.lowering.dialects.ramps import is_aligned, is_ramp

_BYTE = "uint8"


def with_bytes(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module of kernels that store booleans as bytes, and load bytes as vectors."""
    return tvm.IRModule(
        {name: _of_bytes(func) for name, func in module.functions.items()}, attrs=module.attrs
    )


def _of_bytes(func: Any) -> Any:
    params = {each: _parameter(each) for each in func.params if _points_to_truth(each.ty)}
    buffers: dict[Any, Any] = {}

    def memory(buffer: Any) -> Any:
        if str(buffer.dtype) != "bool":
            return buffer
        if buffer not in buffers:
            buffers[buffer] = buffer.with_dtype(_BYTE)
        return buffers[buffer]

    def declared(node: Any, _mutator: tvm_ffi.StructuralMutator) -> Any:
        return tirx.DeclBuffer(memory(node.buffer), data=params.get(node.data, node.data))

    def allocated(node: Any, _mutator: tvm_ffi.StructuralMutator) -> Any:
        allocate: Any = tirx.AllocBuffer
        return allocate(memory(node.buffer), annotations=node.annotations)

    def stored(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        value, indices = mutator.mutate(node.value), [mutator.mutate(each) for each in node.indices]
        if str(node.buffer.dtype) == "bool":
            value = as_number(value, _BYTE)
        return tirx.BufferStore(memory(node.buffer), value, indices)

    def loaded(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        indices = [mutator.mutate(each) for each in node.indices]
        value = _bytes(memory(node.source), indices)
        return value if str(node.source.dtype) != "bool" else as_truth(value)

    def spread(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        value = mutator.mutate(node.value)
        if str(value.ty.dtype) != "bool":
            return tirx.Broadcast(value, node.lanes)
        return as_truth(tirx.Broadcast(as_number(value, "int32"), node.lanes))

    body = tvm_compat.mutated(
        func.body,
        [
            (tirx.DeclBuffer, declared),
            (tirx.AllocBuffer, allocated),
            (tirx.BufferStore, stored),
            (TensorLoad, loaded),
            (tirx.Broadcast, spread),
        ],
    )
    made: Any = tirx.PrimFunc
    return made([params.get(each, each) for each in func.params], body, func.ret_type, func.attrs)


def as_number(truth: Any, kind: str) -> Any:
    """Convert a boolean (or each lane of a vector) to 1 or 0 of a type.

    The values are selected as 32-bit numbers: OpenCL's `select` needs a condition as wide as its operands,
    and TVM generates only 32-bit ones.
    """
    lanes = truth.ty.dtype.lanes
    wide = kind if kind.split("x")[0] in ("int32", "uint32", "float32") else "int32"
    one, zero = (_constant(number, wide.split("x")[0], lanes) for number in (1, 0))
    chosen = tirx.Select(truth, one, zero)
    return chosen if wide == kind else tirx.Cast(_vector(kind.split("x")[0], lanes), chosen)


def _bytes(buffer: Any, indices: list[Any]) -> Any:
    """Load from a buffer; bytes that cannot be loaded at once are loaded one by one into a vector."""
    last: Any = indices[-1] if indices else None
    if not is_ramp(last) or str(buffer.dtype) not in ("int8", _BYTE):
        return tirx.BufferLoad(buffer, indices)
    lanes, step = int(last.lanes), int(last.stride)
    if step == 1 and is_aligned(last):
        return tirx.BufferLoad(buffer, indices)
    each = [tirx.BufferLoad(buffer, [*indices[:-1], last.base + step * lane]) for lane in range(lanes)]
    return tirx.Shuffle(each, list(range(lanes)))


def as_truth(value: Any) -> Any:
    """Convert a number (or each lane of a vector) to a boolean: whether it is not 0."""
    lanes = value.ty.dtype.lanes
    narrow = lanes > 1 and value.ty.dtype.bits == 8
    wide = tirx.Cast(_vector("int32", lanes), value) if narrow else value  # as most masks of `select`
    return tirx.NE(wide, _constant(0, str(wide.ty.dtype).split("x")[0], lanes))


def _constant(number: int, kind: str, lanes: int) -> Any:
    value = tirx.const(number, kind)
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def _vector(kind: str, lanes: int) -> str:
    return f"{kind}x{lanes}" if lanes > 1 else kind


def _points_to_truth(kind: Any) -> bool:
    return isinstance(kind, tvm.ir.PointerType) and str(kind.element_type.dtype) == "bool"


def _parameter(variable: Any) -> Any:
    pointer = tvm.ir.PointerType(tvm.ir.PrimType(_BYTE), variable.ty.storage_scope)
    return tirx.Var(variable.name, pointer)

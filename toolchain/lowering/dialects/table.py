"""The dialects of kernel source, by kind of device."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.devices.kernel import OPENCL_C
from toolchain.devices.table import KindTable
from toolchain.errors import ToolchainError
from toolchain.lowering.dialects.cuda import CUDA
from toolchain.lowering.dialects.dialect import Dialect, is_aligned, is_ramp
from toolchain.lowering.dialects.literals import OPENCL_FORMS
from toolchain.lowering.dialects.opencl_c import corrected, with_running_addresses

# Registers elementary functions that have the same name in OpenCL C and TVM, but no rule in TVM.
#
# Without a rule TVM writes the names of C's functions for float, such as `asinf`, which OpenCL C does not
# have.

_NAMES = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "hypot", "ldexp", "log1p",
    "nextafter", "tan",
)  # fmt: skip


def _same(call: tvm.ir.Call) -> tvm.ir.Call:
    return tirx.call_pure_extern(str(call.ty.dtype), call.op.name.removeprefix("tirx."), *call.args)


def register_functions() -> None:
    """Make TVM emit calls of OpenCL C's `acos`, `tan` and so on, in this whole process."""
    for name in _NAMES:
        tirx.register_intrin_lowering(f"tirx.{name}", "opencl", f=_same, level=99)


# Rewrites booleans in the memory of kernels to bytes that are 0 or 1, and loads of bytes to vectors.
#
# OpenCL C has no `bool` in memory shared with the host, and no vectors of it. TVM writes `__global bool*`
# nevertheless, and stores comparisons of vectors, whose lanes are -1 if true. Bytes that it cannot load at
# once it packs into an `int`, as in CUDA, but OpenCL C needs a vector.

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


# Rewrites conversions between booleans and numbers in kernels, and selections by them.

_NARROW = ("int8", "uint8", "int16", "uint16")


def with_ones(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module of kernels in which true becomes 1 when converted to a number.

    In OpenCL C a true comparison of vectors is -1 (OpenCL C 1.2, 6.3.d), which TVM converts unchanged.
    A number converted to a boolean stays a number in TVM's source, and `select` looks only at the highest bit
    of each lane. Numbers narrower than `int` are selected as ints: C promotes them when it computes, and then
    no `select` fits both operands.
    """
    functions = {
        name: func.with_body(tvm_compat.mutated(func.body, [(tirx.Cast, _number), (tirx.Select, _chosen)]))
        for name, func in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def _number(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
    value = mutator.mutate(node.value)
    kind = str(node.ty.dtype)
    truth, wanted = (each.startswith("bool") for each in (str(node.value.ty.dtype), kind))
    if truth == wanted:
        return tirx.Cast(kind, value)
    return as_truth(value) if wanted else as_number(value, kind)


def _chosen(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
    made = mutator.default_mutate(node)
    kind = str(made.ty.dtype)
    if kind not in _NARROW:
        return made
    yes, no = (tirx.Cast("int32", each) for each in (made.true_value, made.false_value))
    return tirx.Cast(kind, tirx.Select(made.condition, yes, no))


# The dialect OpenCL C, which drivers compile on the board.

_MARK = "// Function: "  # before each kernel of a module (tvm/src/backend/opencl/codegen/codegen_opencl.cc)


def _rewritten(module: tvm.IRModule) -> tvm.IRModule:
    return with_ones(with_bytes(module))


def _sections(source: str) -> dict[str, str]:
    found = {}
    for section in source.split(_MARK)[1:]:
        name, _end, text = section.partition("\n")
        found[name] = corrected(text)
    return found


OPENCL = Dialect(
    language=OPENCL_C,
    format="cl",
    hook="tvm_callback_opencl_postproc",  # in the same file as `_MARK`
    definition=re.compile(r"^__kernel void (\w+)\([^;{]*\) \{", re.MULTILINE),
    declaration=re.compile(r"(?m)^__kernel void \w+\([^(){};]*\);\n"),
    forms=OPENCL_FORMS,
    rewritten=_rewritten,
    sections=_sections,
    finished=with_running_addresses,
    prepare=register_functions,
)


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

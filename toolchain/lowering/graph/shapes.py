"""Networks in several shapes: the table by which edge-rt picks a function, and which constants are copies."""

from __future__ import annotations

import hashlib
from collections import Counter

import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.models.multi_shape import entries

SHAPES = "shapes"
"""Function that returns, for each of the network's functions, a tuple of its inputs' shapes."""


def with_shapes(module: tvm.IRModule) -> tvm.IRModule:
    """Return a module with the function `SHAPES` if the network has several shapes; else the same module."""
    names = entries(module)
    if len(names) == 1:
        return module
    table = relax.Tuple([relax.Tuple([param.ty.shape for param in module[name].params]) for name in names])
    builder = relax.BlockBuilder()
    with builder.function(SHAPES, []):
        with builder.dataflow():
            result = builder.emit_output(table)
        builder.emit_func_output(result)
    return tvm.IRModule(
        {**dict(module.functions.items()), tvm.ir.GlobalVar(SHAPES): builder.finalize()[SHAPES]},
        attrs=module.attrs,
        global_infos=module.global_infos,
    )


def copied_constants(module: tvm.IRModule) -> dict[str, int]:
    """Return the bytes of the constants that the largest shape does not have, by function that reads them.

    They come on top of the largest shape's constants: weights that are packed in another order, or constants
    that depend on the shape. TVM stores equal constants once.
    """
    names = entries(module)
    if len(names) == 1:
        return {}
    stored: set[bytes] = set()
    found: Counter[str] = Counter()
    for name in names:
        for block in module[name].body.blocks:
            for binding in block.bindings:
                for constant in _constants(binding.value):
                    array = constant.value.numpy()
                    digest = hashlib.sha256(
                        f"{array.dtype} {array.shape}".encode() + array.tobytes()
                    ).digest()
                    if digest not in stored and name != names[0]:
                        found[_reader(binding.value)] += array.nbytes
                    stored.add(digest)
    return dict(found)


def _constants(value: relax.Expr) -> list[GenericConst]:
    if isinstance(value, GenericConst):
        return [value]
    if isinstance(value, relax.Tuple):
        return [constant for field in value.fields for constant in _constants(field)]
    if isinstance(value, relax.Call):
        return [constant for argument in value.args for constant in _constants(argument)]
    return []


def _reader(value: relax.Expr) -> str:
    """Return the name of the function that a call calls, else a word for the expression."""
    if isinstance(value, relax.Call) and value.args and isinstance(value.args[0], tvm.ir.GlobalVar):
        return str(value.args[0].name_hint)
    return "the network"

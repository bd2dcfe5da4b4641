"""Functions as text, and back: what the store of records keeps of a task."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm_ffi.serialization import from_json_graph_str, to_json_graph_str

from toolchain.errors import ToolchainError
from toolchain.foreign import first_line

MAIN = "main"
"""What a function is called that stands by itself."""


def definition_of(func: tirx.PrimFunc) -> str:
    """Return a function as text."""
    return str(tvm.ir.save_json(func.with_attr("global_symbol", MAIN)))


def function_of(definition: str) -> tirx.PrimFunc:
    """Return the function that `definition_of` wrote.

    Raises
    ------
    ToolchainError
        It is none of this version of TVM, or damaged.
    """
    try:
        func: tirx.PrimFunc = tvm.ir.load_json(definition)
    except Exception as error:  # TVM raises anything from ValueError to its own kinds
        raise ToolchainError(
            f"the definition of a task cannot be read: {first_line(error)}",
            "tune the task again with --fresh",
        ) from error
    return func


def copied(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a function that shares nothing with the original, called `main`."""
    text = to_json_graph_str(func.with_attr("global_symbol", MAIN))
    copy: tirx.PrimFunc = from_json_graph_str(text)
    return copy


def module_of(func: tirx.PrimFunc) -> tvm.IRModule:
    """Return the module of one function, called `main`."""
    return tvm.IRModule({MAIN: func.with_attr("global_symbol", MAIN)})

"""Converts functions to text and back; the store of records keeps the text of a task."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm_ffi.serialization import from_json_graph_str, to_json_graph_str

from toolchain.errors import ToolchainError
from toolchain.foreign import first_line

MAIN = "main"
"""Name of a function that is alone in its module."""


def definition_of(func: tirx.PrimFunc) -> str:
    """Serialise a function to text."""
    return str(tvm.ir.save_json(func.with_attr("global_symbol", MAIN)))


def function_of(definition: str) -> tirx.PrimFunc:
    """Parse the text that `definition_of` returned.

    Raises
    ------
    ToolchainError
        The text is damaged, or another version of TVM wrote it.
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
    """Return a deep copy of a function, named `main`."""
    text = to_json_graph_str(func.with_attr("global_symbol", MAIN))
    copy: tirx.PrimFunc = from_json_graph_str(text)
    return copy


def module_of(func: tirx.PrimFunc) -> tvm.IRModule:
    """Return a module with one function, named `main`."""
    return tvm.IRModule({MAIN: func.with_attr("global_symbol", MAIN)})

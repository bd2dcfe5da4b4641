"""The functions of a module that compute the network: one for each shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tvm

MAIN = "main"
"""Name of the function for the only shape, or for the largest of several."""


def entry_name(number: int) -> str:
    """Return the name of the function for a shape; number 0 is the largest shape."""
    return f"{MAIN}_{number}" if number else MAIN


def entries(module: tvm.ir.IRModule) -> list[str]:
    """Return the names of the functions that compute the network, that of the largest shape first."""
    names = {variable.name_hint for variable in module.functions}
    found = [MAIN]
    while entry_name(len(found)) in names:
        found.append(entry_name(len(found)))
    return found

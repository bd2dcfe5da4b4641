"""Functions by themselves, to be compiled in other processes: what a tuner builds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import tirx

from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.lowering.definition import module_of
from toolchain.lowering.export import export_objects
from toolchain.lowering.vectors import target_of_code


@dataclass(frozen=True)
class FunctionCode:
    """A scheduled function.

    Attributes
    ----------
    module
        With the one function `main`, as TVM writes it down.
    target
        What it is compiled for, as its own text.
    """

    module: str
    target: str

    def write_objects(self, folder: Path) -> tuple[Path, ...]:
        """Compile the function into `folder`.

        Raises
        ------
        ToolchainError
            TVM cannot compile it.
        """
        try:
            target = tvm.target.Target(self.target)
            module = tvm.ir.load_json(self.module)
            return export_objects(tvm.compile(module, target=target_of_code(module, target)), folder)
        except Exception as error:  # TVM raises anything from TypeError to its own kinds
            raise ToolchainError(f"TVM cannot compile a candidate: {first_line(error)}") from error


def code_of(func: tirx.PrimFunc, target: tvm.target.Target) -> FunctionCode:
    """Return the code of a scheduled function."""
    return FunctionCode(str(tvm.ir.save_json(module_of(func))), str(target))

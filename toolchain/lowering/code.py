"""Functions by themselves, to be made and compiled in other processes: what a tuner builds."""

from __future__ import annotations

from dataclasses import dataclass

import tvm

from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import first_line
from toolchain.lowering.in_memory import object_of
from toolchain.lowering.kernels.compile import compiled
from toolchain.lowering.kernels.pickling import pickled, unpickled
from toolchain.lowering.kernels.recipe import Recipe


@dataclass(frozen=True)
class FunctionCode:
    """What a function is made from; it is compiled as those of a whole network are.

    Attributes
    ----------
    recipe
        From `pickled`.
    target
        What it is compiled for, as its own text.
    """

    recipe: bytes
    target: str

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Make the function and compile it.

        Raises
        ------
        ToolchainError
            The recipe does not apply after all, or TVM cannot compile what it gives.
        """
        with scratch_folder() as folder:
            try:
                func = unpickled(self.recipe).function()
                module = compiled(func, tvm.target.Target(self.target), symbol, folder)
                return (object_of(module),)
            except (ToolchainError, OSError):  # a full disk is no fault of the function
                raise
            except Exception as error:  # TVM raises anything from TypeError to its own kinds
                raise ToolchainError(f"TVM cannot compile a candidate: {first_line(error)}") from error


def code_of(recipe: Recipe, target: tvm.target.Target) -> FunctionCode:
    """Return the code of what a recipe makes."""
    return FunctionCode(pickled(recipe), str(target))

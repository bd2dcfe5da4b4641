"""Functions by themselves, to be made and compiled in other processes: what a tuner builds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm

from toolchain.devices.kernel import Kernel
from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import first_line
from toolchain.lowering.kernels.compile import compiled
from toolchain.lowering.kernels.device import device_object
from toolchain.lowering.kernels.launches import launches_of
from toolchain.lowering.kernels.part import Part
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
        return (self._part(symbol).to_bytes(),)

    def _part(self, symbol: str) -> Part:
        with scratch_folder() as folder:
            try:
                func = unpickled(self.recipe).function()
                return compiled(func, tvm.target.Target(self.target), symbol, folder).part(folder)
            except (ToolchainError, OSError):  # a full disk is no fault of the function
                raise
            except Exception as error:  # TVM raises anything from TypeError to its own kinds
                raise ToolchainError(f"TVM cannot compile a candidate: {first_line(error)}") from error


class DeviceFunctionCode(FunctionCode):
    """The same for a target whose device runs kernels; see `tasks.candidate.DeviceCode`."""

    def linkable(self, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the objects of the functions, and one with the kernels of all."""
        read = [Part.of(data) for data in parts]
        kernels = [kernel for part in read for kernel in part.kernels]
        return (*(part.object for part in read), device_object(kernels, tvm.target.Target(self.target)))

    def launches(self) -> list[Kernel]:
        """Return the kernels that the function begins."""
        try:
            return launches_of(unpickled(self.recipe).function(), tvm.target.Target(self.target))
        except ToolchainError:
            raise
        except Exception as error:  # TVM raises anything from TypeError to its own kinds
            raise ToolchainError(f"TVM cannot compile a candidate: {first_line(error)}") from error


def code_of(recipe: Recipe, target: tvm.target.Target) -> FunctionCode:
    """Return the code of what a recipe makes."""
    made = FunctionCode if target.host is None else DeviceFunctionCode
    return made(pickled(recipe), str(target))

"""The code of a single function, which other processes make and compile for tuning."""

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
from toolchain.lowering.kernels.part import LibraryPart
from toolchain.lowering.kernels.pickling import pickled, unpickled
from toolchain.lowering.kernels.recipe import Recipe


@dataclass(frozen=True)
class FunctionCode:
    """The code of one function as a recipe: other processes can make the function from it and compile it.

    It is compiled in the same way as the functions of a whole network.

    Attributes
    ----------
    recipe
        Data from which the function is made (a `Recipe`), as bytes from `pickled`.
    target
        TVM target as text.
    """

    recipe: bytes
    target: str

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Make the function and compile it.

        Raises
        ------
        ToolchainError
            The recipe does not apply, or TVM cannot compile its function.
        """
        return (self._part(symbol).to_bytes(),)

    def _part(self, symbol: str) -> LibraryPart:
        with scratch_folder() as folder:
            try:
                func = unpickled(self.recipe).function()
                return compiled(func, tvm.target.Target(self.target), symbol, folder).part(folder)
            except (ToolchainError, OSError):  # an OSError, such as a full disk, is not the function's fault
                raise
            except Exception as error:  # TVM raises anything from TypeError to its own kinds
                raise ToolchainError(f"TVM cannot compile a candidate: {first_line(error)}") from error


class DeviceFunctionCode(FunctionCode):
    """The code of a function whose kernels run on a device; see `tasks.candidate.DeviceCode`."""

    def linkable(self, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the objects of the functions, and one object with all their kernels."""
        read = [LibraryPart.of(data) for data in parts]
        units = [part.unit for part in read]
        return (*(part.object for part in read), device_object(units, tvm.target.Target(self.target)))

    def launches(self) -> list[Kernel]:
        """Return the kernels that the function launches."""
        try:
            return launches_of(unpickled(self.recipe).function(), tvm.target.Target(self.target))
        except ToolchainError:
            raise
        except Exception as error:  # TVM raises anything from TypeError to its own kinds
            raise ToolchainError(f"TVM cannot compile a candidate: {first_line(error)}") from error


def code_of(recipe: Recipe, target: tvm.target.Target) -> FunctionCode:
    """Return the code of a recipe's function."""
    made = FunctionCode if target.host is None else DeviceFunctionCode
    return made(pickled(recipe), str(target))

"""The code of a single function, which other processes make and compile for tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import tvm
import tvm_ffi
from tvm import tirx

from toolchain.devices.kernel import Extents, Kernel
from toolchain.devices.table import with_kernels
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import first_line
from toolchain.lowering.dialects.table import dialect_of
from toolchain.lowering.functions.definition import MAIN
from toolchain.lowering.kernels import device
from toolchain.lowering.kernels.compile import compiled, lower
from toolchain.lowering.kernels.device import device_object
from toolchain.lowering.kernels.part import LibraryPart
from toolchain.lowering.kernels.pickling import pickled, unpickled
from toolchain.lowering.kernels.recipe import Recipe

# Finds the kernels that a scheduled function launches on a device, with their launch extents.


def launches_of(func: tirx.PrimFunc, target: tvm.target.Target, symbol: str = MAIN) -> list[Kernel]:
    """Return the kernels of a scheduled function, sorted by name.

    Parameters
    ----------
    target
        TVM target of a device, with a host.
    symbol
        Prefix of the kernels' names.

    Raises
    ------
    UsageError
        It launches none, because it is code for a CPU.
    ValueError, TypeError, RuntimeError
        TVM cannot compile it.
    """
    functions = lower(func, target, symbol)[0].device
    if functions is None:
        raise UsageError("this code is for a CPU: it has no kernels", with_kernels())
    dialect = dialect_of(target)
    lowered_kernels = {str(each.attrs["global_symbol"]): each for each in functions.functions.values()}
    kernels = device.kernels_of(functions, target)
    resources = dialect.resources(kernels, target) if dialect.resources else {}
    return [
        Kernel(
            kernel.name,
            dialect.declaration.sub("", kernel.source),
            *_launch(lowered_kernels[kernel.name]),
            _arguments(lowered_kernels[kernel.name]),
            dialect.language,
            resources.get(kernel.name, ()),
        )
        for kernel in kernels
    ]


def _launch(kernel: tirx.PrimFunc) -> tuple[Extents, Extents]:
    """Return the numbers of work items in a work group, and of work groups, in three dimensions."""
    extents: dict[str, int] = {}

    def note(statement: tirx.AttrStmt) -> None:
        if statement.attr_key == "thread_extent":
            extents[statement.node.thread_tag] = int(statement.value)

    tvm_ffi.structural_walk(kernel.body, [(tirx.AttrStmt, note)])
    return _three(extents, "threadIdx"), _three(extents, "blockIdx")


def _three(extents: dict[str, int], kind: str) -> Extents:
    return extents.get(f"{kind}.x", 1), extents.get(f"{kind}.y", 1), extents.get(f"{kind}.z", 1)


def _arguments(kernel: tirx.PrimFunc) -> tuple[int, ...]:
    """Return the sizes in bytes of a kernel's buffer arguments."""
    sizes: dict[tirx.Var, int] = {}

    def note(statement: tirx.DeclBuffer) -> None:
        buffer = statement.buffer
        dtype = tvm.DataType(buffer.dtype)
        sizes[statement.data] = prod(int(extent) for extent in buffer.shape) * dtype.bits * dtype.lanes // 8

    tvm_ffi.structural_walk(kernel.body, [(tirx.DeclBuffer, note)])
    return tuple(sizes[parameter] for parameter in kernel.params if parameter in sizes)


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

"""The driver API of CUDA by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np

Address = c_uint64
"""`CUdeviceptr`"""


class DriverError(Exception):
    """A call of the driver returned an error; its number is the argument."""


class Driver:
    """The driver in a file, with the first device's context current."""

    def __init__(self, file: str) -> None:
        self.library = ctypes.CDLL(file)

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function; return the number of its result."""
        return int(getattr(self.library, name)(*arguments))

    def do(self, name: str, *arguments: Any) -> None:
        """Call a function, which must succeed."""
        if code := self.call(name, *arguments):
            raise DriverError(name, code)

    def begin(self) -> Driver:
        """Make the first device's context current."""
        context = c_void_p()
        self.do("cuInit", 0)
        self.do("cuDevicePrimaryCtxRetain", byref(context), 0)
        self.do("cuCtxSetCurrent", context)
        return self

    def allocated(self, size: int) -> Address:
        """Allocate device memory."""
        at = Address()
        self.do("cuMemAlloc_v2", byref(at), c_size_t(size))
        return at

    def put(self, array: np.ndarray) -> Address:
        """Return device memory with an array's elements."""
        at = self.allocated(array.nbytes)
        self.do("cuMemcpyHtoD_v2", at, c_void_p(array.ctypes.data), c_size_t(array.nbytes))
        return at

    def get(self, at: Address, like: np.ndarray) -> np.ndarray:
        """Return an array of device memory."""
        array = np.empty_like(like)
        self.do("cuMemcpyDtoH_v2", c_void_p(array.ctypes.data), at, c_size_t(array.nbytes))
        return array

    def function(self, image: bytes, name: str) -> c_void_p:
        """Load a unit of kernels and return one of them."""
        module, function = c_void_p(), c_void_p()
        self.do("cuModuleLoadData", byref(module), image)
        self.do("cuModuleGetFunction", byref(function), module, name.encode())
        return function

    def launch(
        self,
        function: c_void_p,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Any],
        *,
        shared: int = 0,
        stream: Any = None,
    ) -> int:
        """Launch a kernel with ctypes' values as arguments; return the number of the result."""
        extents = [*[*grid, 1, 1][:3], *[*block, 1, 1][:3]]
        places = (c_void_p * max(1, len(arguments)))(*(ctypes.addressof(argument) for argument in arguments))
        return self.call("cuLaunchKernel", function, *extents, shared, stream, places, None)


def computed(
    driver: Driver,
    image: bytes,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    arrays: Sequence[np.ndarray],
    *,
    shared: int = 0,
) -> list[np.ndarray]:
    """Run a kernel once on arrays; return what device memory holds then."""
    driver.begin()
    function = driver.function(image, kernel)
    if shared:
        driver.do("cuFuncSetAttribute", function, 8, shared)
    memory = [driver.put(array) for array in arrays]
    if code := driver.launch(function, grid, block, memory, shared=shared):
        raise DriverError("cuLaunchKernel", code)
    return [driver.get(at, array) for at, array in zip(memory, arrays, strict=True)]

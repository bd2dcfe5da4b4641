"""CUDA's driver by ctypes: what a measurement of launches asks of it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_ulonglong, c_void_p
from typing import Any

MULTIPROCESSORS = 16
"""Number of CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT."""

_MAJOR, _MINOR, _COOPERATIVE = 75, 76, 95
_THREAD_LOCAL = 1  # how streams are captured: calls of other threads do not matter
_NOT_READY = 600


class Driver:
    """The first GPU that CUDA finds, its primary context, and a stream.

    Attributes
    ----------
    cooperative
        Whether all blocks of a launch can be made to run at the same time.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ.get("EDGE_CUDA_DRIVER", "libcuda.so.1"))
        self._device, context, self._stream = c_int(), c_void_p(), c_void_p()
        self._kept: list[Any] = []
        self.do("cuInit", 0)
        self.do("cuDeviceGet", byref(self._device), 0)
        self.do("cuDevicePrimaryCtxRetain", byref(context), self._device)
        self.do("cuCtxSetCurrent", context)
        self.do("cuStreamCreate", byref(self._stream), 1)  # it does not wait for the default stream
        self._events = [c_void_p(), c_void_p()]
        for event in self._events:
            self.do("cuEventCreate", byref(event), 0)
        known = hasattr(self._library, "cuLaunchCooperativeKernel")
        self.cooperative = known and self.attribute(_COOPERATIVE) == 1

    def do(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises
        ------
        RuntimeError
            It returns an error.
        """
        if code := getattr(self._library, name)(*arguments):
            words = ctypes.c_char_p()
            self._library.cuGetErrorName(code, byref(words))
            raise RuntimeError(f"{name} returns {(words.value or b'an error').decode()} ({code})")

    def attribute(self, number: int) -> int:
        """Return an attribute of the GPU."""
        value = c_int()
        self.do("cuDeviceGetAttribute", byref(value), number, self._device)
        return value.value

    @property
    def architecture(self) -> int:
        """Number of the GPU's architecture: 90 for sm_90."""
        return 10 * self.attribute(_MAJOR) + self.attribute(_MINOR)

    def load(self, image: bytes) -> c_void_p:
        """Load a module of kernels."""
        module = c_void_p()
        self.do("cuModuleLoadData", byref(module), image)
        return module

    def words(self, count: int) -> c_uint64:
        """Return the address of so many words of 32 bits, which are zero."""
        address = c_uint64()
        self.do("cuMemAlloc_v2", byref(address), c_size_t(4 * count))
        self.do("cuMemsetD32_v2", address, 0, c_size_t(count))
        self.do("cuCtxSynchronize")  # the stream does not wait for what sets memory
        return address

    def word(self, address: c_uint64) -> int:
        """Return a word of the GPU's memory, after all that the stream was told."""
        value = ctypes.c_uint32()
        self.do("cuStreamSynchronize", self._stream)
        self.do("cuMemcpyDtoH_v2", byref(value), address, c_size_t(4))
        return value.value

    def launch(
        self,
        module: c_void_p,
        kernel: str,
        blocks: int,
        threads: int,
        *arguments: Any,
        together: bool = False,
    ) -> Callable[[], None]:
        """Return what launches a kernel; its blocks run at the same time with `together`, if the GPU can."""
        function = c_void_p()
        self.do("cuModuleGetFunction", byref(function), module, kernel.encode())
        places = (c_void_p * max(1, len(arguments)))(*(ctypes.addressof(each) for each in arguments))
        name, more = "cuLaunchKernel", [None]
        if together and self.cooperative:
            name, more = "cuLaunchCooperativeKernel", []
        shape = [blocks, 1, 1, threads, 1, 1, 0, self._stream]
        self._kept.append(arguments)  # `places` has their addresses alone
        return lambda: self.do(name, function, *shape, places, *more)

    def graph(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what launches a graph of what `work` launches."""
        graph, made = c_void_p(), c_void_p()
        self.do("cuStreamBeginCapture_v2", self._stream, _THREAD_LOCAL)
        work()
        self.do("cuStreamEndCapture", self._stream, byref(graph))
        self.do("cuGraphInstantiateWithFlags", byref(made), graph, c_ulonglong(0))
        return lambda: self.do("cuGraphLaunch", made, self._stream)

    def timed(self, work: Callable[[], None], before: Callable[[], None]) -> tuple[float, bool]:
        """Return the microseconds of what `work` launches, and whether it was launched before they began.

        Parameters
        ----------
        before
            Keeps the GPU busy until all is launched: else this process would be timed.
        """
        milliseconds, (begin, end) = c_float(), self._events
        before()
        self.do("cuEventRecord", begin, self._stream)
        work()
        self.do("cuEventRecord", end, self._stream)
        ahead = self._library.cuEventQuery(begin) == _NOT_READY
        self.do("cuEventSynchronize", end)
        self.do("cuEventElapsedTime", byref(milliseconds), begin, end)
        return 1000 * milliseconds.value, ahead

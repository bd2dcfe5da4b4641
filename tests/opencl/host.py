"""Begins one OpenCL kernel by the driver in a file; run as a process of its own.

    python -m tests.opencl.host FOLDER

FOLDER has `launch.json`, `kernel.cl` and an array `N.npy` for each argument; what memory holds then is
written into them.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

_ALL_DEVICES, _READ_WRITE, _BLOCKING, _BUILD_LOG = 0xFFFFFFFF, 1, 1, 0x1183


def run(folder: Path) -> None:
    """Begin the kernel, wait for it, and write what memory holds then."""
    launch = json.loads((folder / "launch.json").read_text())
    cl = _Driver(launch["driver"])
    platform, device = ctypes.c_void_p(), ctypes.c_void_p()
    cl.do("clGetPlatformIDs", 1, ctypes.byref(platform), None)
    cl.do("clGetDeviceIDs", platform, ctypes.c_uint64(_ALL_DEVICES), 1, ctypes.byref(device), None)
    context = cl.make("clCreateContext", None, 1, ctypes.byref(device), None, None)
    queue = cl.make("clCreateCommandQueue", context, device, ctypes.c_uint64(0))
    source = (folder / "kernel.cl").read_bytes()
    text, size = ctypes.c_char_p(source), ctypes.c_size_t(len(source))
    program = cl.make("clCreateProgramWithSource", context, 1, ctypes.byref(text), ctypes.byref(size))
    built = cl.library.clBuildProgram(
        program, 1, ctypes.byref(device), launch["options"].encode(), None, None
    )
    if built:
        log = ctypes.create_string_buffer(1 << 16)
        cl.library.clGetProgramBuildInfo(program, device, _BUILD_LOG, ctypes.c_size_t(len(log)), log, None)
        _fail(f"clBuildProgram says {built}: {log.value.decode(errors='replace')}")
    kernel = cl.make("clCreateKernel", program, launch["kernel"].encode())
    arrays = [np.load(folder / f"{number}.npy") for number in range(launch["arguments"])]
    memory: list[Any] = []
    for number, array in enumerate(arrays):
        bytes_ = ctypes.c_size_t(array.nbytes)
        if array.ndim == 0:
            cl.do("clSetKernelArg", kernel, number, bytes_, array.ctypes.data_as(ctypes.c_void_p))
            memory.append(None)
            continue
        made = cl.make("clCreateBuffer", context, ctypes.c_uint64(_READ_WRITE), bytes_, None)
        _copy(cl, "clEnqueueWriteBuffer", queue, made, array)
        cl.do("clSetKernelArg", kernel, number, ctypes.c_size_t(8), ctypes.byref(made))
        memory.append(made)
    triple = ctypes.c_size_t * 3
    items = triple(*launch["items"])
    everything = triple(*(g * i for g, i in zip(launch["groups"], launch["items"], strict=True)))
    cl.do("clEnqueueNDRangeKernel", queue, kernel, 3, None, everything, items, 0, None, None)
    cl.do("clFinish", queue)
    for number, (array, made) in enumerate(zip(arrays, memory, strict=True)):
        if made is not None:
            _copy(cl, "clEnqueueReadBuffer", queue, made, array)
            np.save(folder / f"{number}.npy", array)


def _copy(cl: _Driver, call: str, queue: Any, memory: Any, array: np.ndarray) -> None:
    at = array.ctypes.data_as(ctypes.c_void_p)
    zero, size = ctypes.c_size_t(0), ctypes.c_size_t(array.nbytes)
    cl.do(call, queue, memory, _BLOCKING, zero, size, at, 0, None, None)


class _Driver:
    def __init__(self, file: str) -> None:
        self.library = ctypes.CDLL(file)

    def do(self, call: str, *arguments: Any) -> None:
        code = getattr(self.library, call)(*arguments)
        if code:
            _fail(f"{call} says {code}")

    def make(self, call: str, *arguments: Any) -> ctypes.c_void_p:
        function = getattr(self.library, call)
        function.restype = ctypes.c_void_p
        code = ctypes.c_int()
        made = function(*arguments, ctypes.byref(code))
        if code.value or not made:
            _fail(f"{call} says {code.value}")
        return ctypes.c_void_p(made)


def _fail(words: str) -> NoReturn:
    raise SystemExit(words)


if __name__ == "__main__":
    run(Path(sys.argv[1]))

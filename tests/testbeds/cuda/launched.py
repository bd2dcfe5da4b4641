"""Kernels for tests of the emulated driver, and calls that several of them make."""

from __future__ import annotations

from ctypes import byref, c_float, c_void_p
from typing import Any

import numpy as np

from tests.testbeds.cuda.host import Address, Driver

INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 1, 2, 3, 100
INVALID_IMAGE, INVALID_CONTEXT, NO_BINARY, INVALID_HANDLE, ILLEGAL_STATE = 200, 201, 209, 400, 401
NOT_FOUND, NOT_READY, ILLEGAL_ADDRESS = 500, 600, 700
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, UNMATCHED, UNJOINED, IMPLICIT = 900, 901, 903, 904, 906
N = 64
Extents = tuple[int, ...]
KERNELS = """
extern "C" __global__ void __launch_bounds__(64) add(float* x, float by) {
  x[blockIdx.x * 64 + threadIdx.x] += by;
}
extern "C" __global__ void reverse(float* x) {
  extern __shared__ float s[];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void large(float* x) {
  __shared__ float s[8192];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void at(float* x, long long far) { x[far] = 1.0f; }
"""


def ones(driver: Driver) -> Address:
    return driver.put(np.ones(N, "f4"))


def add(driver: Driver, function: c_void_p, at: Address, by: float, stream: Any = None) -> int:
    return driver.launch(function, (1,), (N,), (at, c_float(by)), stream=stream)


def first(driver: Driver, at: Address) -> float:
    return float(driver.get(at, np.empty(N, "f4"))[0])


def stream_of(driver: Driver, flags: int = 1) -> c_void_p:
    stream = c_void_p()
    driver.do("cuStreamCreate", byref(stream), flags)
    return stream

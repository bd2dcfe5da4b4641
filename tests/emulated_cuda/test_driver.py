"""The emulated driver behaves as CUDA's reference says drivers do, where a program may get it wrong."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from ctypes import (
    addressof,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ulonglong,
    c_void_p,
    create_string_buffer,
)
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.emulated_cuda.child import in_child
from tests.emulated_cuda.host import Address, Driver
from toolchain.architectures.table import LINUX
from toolchain.emulated_cuda import compile_emulated, ensure_emulated_cuda
from toolchain.emulated_cuda.driver import ARCHITECTURES
from toolchain.errors import UsageError
from toolchain.lowering.dialects.nvrtc import compile_cuda

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_emulated(KERNELS, LINUX[platform.machine()])


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


# Devices, and what is refused before anything runs.


def introduction(driver: Driver) -> dict[str, Any]:
    count, version, value = c_int(), c_int(), c_int()
    before = driver.call("cuDeviceGetCount", byref(count))
    driver.do("cuDriverGetVersion", byref(version))
    code = driver.call("cuInit", 0)
    if code:
        return {"before": before, "init": code, "version": version.value}
    driver.do("cuDeviceGetCount", byref(count))
    name = create_string_buffer(64)
    driver.do("cuDeviceGetName", name, 64, 0)
    capability = []
    for attribute in (75, 76):
        driver.do("cuDeviceGetAttribute", byref(value), attribute, 0)
        capability.append(value.value)
    size = c_size_t()
    driver.do("cuDeviceTotalMem_v2", byref(size), 0)
    return {
        "before": before,
        "version": version.value,
        "count": count.value,
        "name": name.value.decode(),
        "capability": capability,
        "memory": size.value,
        "beyond": driver.call("cuDeviceGet", byref(value), count.value),
        "without context": driver.call("cuMemAlloc_v2", byref(Address()), c_size_t(4)),
    }


def test_it_says_what_it_is() -> None:
    said = in_child(introduction).value
    assert said["before"] == NOT_INITIALIZED and said["version"] == 13000
    assert (said["count"], said["name"], said["capability"]) == (1, "emulated", [0, 0])
    assert said["beyond"] == 101 and said["without context"] == INVALID_CONTEXT


def test_the_environment_changes_what_it_says() -> None:
    environment = {
        "EDGE_CUDA_VERSION": "12040",
        "EDGE_CUDA_DEVICES": "2",
        "EDGE_CUDA_CAPABILITY": "9.0",
        "EDGE_CUDA_MEMORY": "4096",
    }
    said = in_child(introduction, **environment).value
    assert (said["version"], said["count"], said["capability"]) == (12040, 2, [9, 0])
    assert said["memory"] == 4096
    none = in_child(introduction, EDGE_CUDA_DEVICES="0").value
    assert none["init"] == NO_DEVICE


def names(driver: Driver) -> tuple[str, str, int]:
    name, words = c_char_p(), c_char_p()
    driver.do("cuGetErrorName", 700, byref(name))
    driver.do("cuGetErrorString", 700, byref(words))
    unknown = driver.call("cuGetErrorName", 12345, byref(c_char_p()))
    return (name.value or b"").decode(), (words.value or b"").decode(), unknown


def test_errors_have_names() -> None:
    said = in_child(names).value
    assert said == ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered", INVALID_VALUE)


# Memory.


def memory_errors(driver: Driver) -> dict[str, Any]:
    driver.begin()
    at, host = driver.allocated(256), np.zeros(64, "f4")
    to = c_void_p(host.ctypes.data)
    outside = Address(at.value + 255)
    fresh = driver.get(at, host)
    found = {
        "fresh": bool(np.isnan(fresh).all()),
        "too large": driver.call("cuMemAlloc_v2", byref(Address()), c_size_t(4096)),
        "of size 0": driver.call("cuMemAlloc_v2", byref(Address()), c_size_t(0)),
        "beyond": driver.call("cuMemcpyDtoH_v2", to, outside, c_size_t(2)),
        "host": driver.call("cuMemcpyDtoH_v2", to, Address(host.ctypes.data), c_size_t(4)),
        "middle": driver.call("cuMemFree_v2", Address(at.value + 4)),
    }
    driver.do("cuMemFree_v2", at)
    found["freed"] = driver.call("cuMemcpyDtoH_v2", to, at, c_size_t(4))
    found["twice"] = driver.call("cuMemFree_v2", at)
    free, total = c_size_t(), c_size_t()
    driver.do("cuMemGetInfo_v2", byref(free), byref(total))
    return found | {"free": free.value, "again": driver.allocated(4096).value != at.value}


def test_memory() -> None:
    found = in_child(memory_errors, EDGE_CUDA_MEMORY="4096").value
    assert found == {
        "fresh": True,
        "too large": OUT_OF_MEMORY,
        "of size 0": INVALID_VALUE,
        "beyond": INVALID_VALUE,
        "host": INVALID_VALUE,
        "middle": INVALID_VALUE,
        "freed": INVALID_VALUE,
        "twice": INVALID_VALUE,
        "free": 4096,
        "again": True,
    }


def test_the_host_cannot_read_device_memory() -> None:
    """A pointer of a GPU is none of the host's; here, too, using it ends the process."""
    script = (
        "import ctypes, sys; from tests.emulated_cuda.host import Driver; d = Driver(sys.argv[1]).begin();"
        "at = d.allocated(64); print('here', flush=True); ctypes.string_at(at.value, 1); print('there')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(ensure_emulated_cuda())],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode < 0 and ended.stdout == "here\n"


def far_store(driver: Driver, image: bytes, far: int, owner_freed: bool) -> tuple[int, ...]:
    driver.begin()
    at, function = ones(driver), driver.function(image, "at")
    if owner_freed:
        driver.do("cuMemFree_v2", at)
    driver.do("cuLaunchKernel", function, *[1] * 6, 0, None, _places(at, c_ulonglong(far)), None)
    code = driver.call("cuCtxSynchronize")
    return (
        code,
        driver.call("cuMemAlloc_v2", byref(Address()), c_size_t(4)),
        driver.call("cuStreamCreate", byref(c_void_p()), 0),
        driver.call("cuDevicePrimaryCtxRetain", byref(c_void_p()), 0),
    )


def _places(*arguments: Any) -> Any:
    return (c_void_p * len(arguments))(*(addressof(each) for each in arguments))


@pytest.mark.parametrize(("far", "freed"), [(N, False), (1 << 40, False), (0, True)])
def test_an_illegal_address_stays_the_contexts(image: bytes, far: int, freed: bool) -> None:
    ended = in_child(far_store, image, far, freed)
    assert set(ended.value) == {ILLEGAL_ADDRESS}
    assert "kernel at, block (0, 0, 0), thread (0, 0, 0): it writes 4 bytes" in ended.said


# Streams and events.


def lazy(driver: Driver, image: bytes) -> dict[str, Any]:
    driver.begin()
    stream, at, host = stream_of(driver), ones(driver), np.zeros(N, "f4")
    function = driver.function(image, "add")
    assert add(driver, function, at, 1.0, stream) == 0
    size = c_size_t(host.nbytes)
    driver.do("cuMemcpyDtoHAsync_v2", c_void_p(host.ctypes.data), at, size, stream)
    before = float(host[0])
    not_ready = driver.call("cuStreamQuery", stream)
    driver.do("cuStreamSynchronize", stream)
    return {"before": before, "query": not_ready, "after": float(host[0])}


def test_what_nobody_waits_for_is_not_done(image: bytes) -> None:
    assert in_child(lazy, image).value == {"before": 0.0, "query": NOT_READY, "after": 2.0}


def ordered(driver: Driver, image: bytes, waits: bool) -> float:
    driver.begin()
    one, two, at, event = stream_of(driver), stream_of(driver), ones(driver), c_void_p()
    function = driver.function(image, "add")
    driver.do("cuEventCreate", byref(event), 2)
    add(driver, function, at, 1.0, one)
    driver.do("cuEventRecord", event, one)
    if waits:
        driver.do("cuStreamWaitEvent", two, event, 0)
    copied = driver.allocated(N * 4)
    driver.do("cuMemcpyDtoDAsync_v2", copied, at, c_size_t(N * 4), two)
    driver.do("cuStreamSynchronize", two)
    return first(driver, copied)


@pytest.mark.parametrize(("waits", "value"), [(True, 2.0), (False, 1.0)])
def test_streams_wait_for_events_alone(image: bytes, waits: bool, value: float) -> None:
    assert in_child(ordered, image, waits).value == value


def null_stream(driver: Driver, image: bytes, flags: int) -> float:
    driver.begin()
    stream, at, function = stream_of(driver, flags), ones(driver), driver.function(image, "add")
    add(driver, function, at, 1.0, stream)
    copied = driver.allocated(N * 4)
    driver.do("cuMemcpyDtoD_v2", copied, at, c_size_t(N * 4))
    return first(driver, copied)


@pytest.mark.parametrize(("flags", "value"), [(0, 2.0), (1, 1.0)])
def test_the_null_stream_waits_for_blocking_streams(image: bytes, flags: int, value: float) -> None:
    assert in_child(null_stream, image, flags).value == value


def timed(driver: Driver, image: bytes) -> tuple[float, int, float]:
    driver.begin()
    begin, end, ms = c_void_p(), c_void_p(), c_float()
    at, function, stream = ones(driver), driver.function(image, "add"), stream_of(driver)
    driver.do("cuEventCreate", byref(begin), 0)
    driver.do("cuEventCreate", byref(end), 0)
    driver.do("cuEventRecord", begin, stream)
    for _ in range(200):
        add(driver, function, at, 1.0, stream)
    driver.do("cuEventRecord", end, stream)
    early = driver.call("cuEventElapsedTime", byref(ms), begin, end)
    started = time.perf_counter()
    driver.do("cuEventSynchronize", end)
    took = (time.perf_counter() - started) * 1e3
    driver.do("cuEventElapsedTime", byref(ms), begin, end)
    return ms.value, early, took


def test_events_take_real_times(image: bytes) -> None:
    ms, early, took = in_child(timed, image).value
    assert early == NOT_READY and 0 < ms <= took


# Graphs.


def captured(driver: Driver, image: bytes) -> dict[str, Any]:
    driver.begin()
    stream, at, by = stream_of(driver), ones(driver), c_float(1.0)
    function, graph, made = driver.function(image, "add"), c_void_p(), c_void_p()
    driver.do("cuStreamBeginCapture_v2", stream, 0)
    assert driver.launch(function, (1,), (N,), (at, by), stream=stream) == 0
    by.value = 1000.0  # arguments are those of the capture
    nodes = c_size_t()
    driver.do("cuStreamEndCapture", stream, byref(graph))
    driver.do("cuGraphGetNodes", graph, None, byref(nodes))
    untouched = first(driver, at)
    driver.do("cuGraphInstantiateWithFlags", byref(made), graph, c_ulonglong(0))
    driver.do("cuGraphDestroy", graph)
    for _ in range(3):
        driver.do("cuGraphLaunch", made, stream)
    driver.do("cuStreamSynchronize", stream)
    value = first(driver, at)
    driver.do("cuGraphExecDestroy", made)
    gone = driver.call("cuGraphLaunch", made, stream)
    return {"nodes": nodes.value, "untouched": untouched, "value": value, "gone": gone}


def test_a_graph_is_recorded_then_run(image: bytes) -> None:
    found = in_child(captured, image).value
    assert found == {"nodes": 1, "untouched": 1.0, "value": 4.0, "gone": INVALID_VALUE}


FORBIDDEN = ("cuStreamSynchronize", "cuCtxSynchronize", "cuMemAlloc_v2", "cuModuleLoadData", "null stream")


def forbidden(driver: Driver, image: bytes, what: str, mode: int) -> tuple[int, int, int]:
    driver.begin()
    at, function, stream, graph = (
        ones(driver),
        driver.function(image, "add"),
        stream_of(driver, 0),
        c_void_p(),
    )
    driver.do("cuStreamBeginCapture_v2", stream, mode)
    calls = {
        "cuStreamSynchronize": lambda: driver.call("cuStreamSynchronize", stream),
        "cuCtxSynchronize": lambda: driver.call("cuCtxSynchronize"),
        "cuMemAlloc_v2": lambda: driver.call("cuMemAlloc_v2", byref(Address()), c_size_t(4)),
        "cuModuleLoadData": lambda: driver.call("cuModuleLoadData", byref(c_void_p()), image),
        "null stream": lambda: add(driver, function, at, 1.0),
    }
    code = calls[what]()
    later = add(driver, function, at, 1.0, stream)
    return code, later, driver.call("cuStreamEndCapture", stream, byref(graph))


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_a_capture_forbids_ends_it(image: bytes, what: str) -> None:
    code = IMPLICIT if what == "null stream" else CAPTURE_UNSUPPORTED
    assert in_child(forbidden, image, what, 0).value == (code, CAPTURE_INVALIDATED, CAPTURE_INVALIDATED)


@pytest.mark.parametrize("what", ["cuMemAlloc_v2", "cuModuleLoadData"])
def test_a_relaxed_capture_allows_more(image: bytes, what: str) -> None:
    assert in_child(forbidden, image, what, 2).value == (0, 0, 0)


def states(driver: Driver, image: bytes) -> dict[str, int]:
    driver.begin()
    one, two, event, graph = stream_of(driver), stream_of(driver), c_void_p(), c_void_p()
    at, function = ones(driver), driver.function(image, "add")
    found = {
        "end without begin": driver.call("cuStreamEndCapture", one, byref(graph)),
        "null": driver.call("cuStreamBeginCapture_v2", None, 0),
    }
    driver.do("cuStreamBeginCapture_v2", one, 0)
    found["twice"] = driver.call("cuStreamBeginCapture_v2", one, 0)
    driver.do("cuEventCreate", byref(event), 2)
    driver.do("cuEventRecord", event, one)
    driver.do("cuStreamWaitEvent", two, event, 0)
    add(driver, function, at, 1.0, two)
    found["of another stream"] = driver.call("cuStreamEndCapture", two, byref(graph))
    found["unjoined"] = driver.call("cuStreamEndCapture", one, byref(graph))
    driver.do("cuStreamBeginCapture_v2", one, 0)
    driver.do("cuEventRecord", event, one)
    driver.do("cuStreamWaitEvent", two, event, 0)
    add(driver, function, at, 1.0, two)
    driver.do("cuEventRecord", event, two)
    driver.do("cuStreamWaitEvent", one, event, 0)
    found["joined"] = driver.call("cuStreamEndCapture", one, byref(graph))
    return found


def test_states_of_captures(image: bytes) -> None:
    assert in_child(states, image).value == {
        "end without begin": ILLEGAL_STATE,
        "null": CAPTURE_UNSUPPORTED,
        "twice": ILLEGAL_STATE,
        "of another stream": UNMATCHED,
        "unjoined": UNJOINED,
        "joined": 0,
    }


# Modules and launches.


def modules(driver: Driver, image: bytes, cubin: bytes) -> dict[str, Any]:
    driver.begin()
    at, function, stream = ones(driver), driver.function(image, "add"), stream_of(driver)
    one = (1, 1, 1)
    value = c_int()

    def launched(
        grid: tuple[int, ...], block: tuple[int, ...], name: str = "reverse", shared: int = 0
    ) -> int:
        arguments = (at, c_float(0)) if name == "add" else (at,)
        return driver.launch(driver.function(image, name), grid, block, arguments, shared=shared)

    def attribute(name: str, which: int) -> int:
        driver.do("cuFuncGetAttribute", byref(value), which, driver.function(image, name))
        return value.value

    large = driver.function(image, "large")
    found = {
        "cubin": driver.call("cuModuleLoadData", byref(c_void_p()), cubin),
        "text": driver.call("cuModuleLoadData", byref(c_void_p()), b".version 8.0\n" + bytes(64)),
        "no kernel": driver.call("cuModuleGetFunction", byref(c_void_p()), c_void_p(1), b"add"),
        "block 0": launched(one, (0, 1, 1)),
        "grid 0": launched((1, 0, 1), one),
        "1024": launched(one, (16, 64, 1), shared=4096),
        "1025": launched(one, (1025, 1, 1)),
        "z of 65": launched(one, (1, 1, 65)),
        "bounds": launched(one, (65, 1, 1), "add"),
        "grid y": launched((1, 65536, 1), one),
        "shared 48 KiB": launched(one, (N, 1, 1), shared=49152),
        "shared more": launched(one, (N, 1, 1), shared=49153),
        "none": driver.call("cuLaunchKernel", function, *one, *one, 0, stream, None, None),
        "static": attribute("large", 1),
        "threads": attribute("add", 0),
        "asked": driver.call("cuFuncSetAttribute", large, 8, 232448 - 32768),
        "asked for too much": driver.call("cuFuncSetAttribute", large, 8, 232448 - 32768 + 1),
    }
    found["large"] = driver.launch(large, one, (N,), (at,), shared=100000)
    return found


def test_modules_and_launches(image: bytes) -> None:
    cubin = bytes(compile_cuda('extern "C" __global__ void f() {}', 90).code.code)
    found = in_child(modules, image, cubin).value
    assert found == {
        "cubin": NO_BINARY,
        "text": INVALID_IMAGE,
        "no kernel": INVALID_HANDLE,
        "block 0": INVALID_VALUE,
        "grid 0": INVALID_VALUE,
        "1024": 0,
        "1025": INVALID_VALUE,
        "z of 65": INVALID_VALUE,
        "bounds": INVALID_VALUE,
        "grid y": INVALID_VALUE,
        "shared 48 KiB": 0,
        "shared more": INVALID_VALUE,
        "none": INVALID_VALUE,
        "static": 32768,
        "threads": 64,
        "asked": 0,
        "asked for too much": INVALID_VALUE,
        "large": 0,
    }


def dynamic(driver: Driver, image: bytes) -> list[float]:
    driver.begin()
    at = driver.put(np.arange(N, dtype="f4"))
    assert driver.launch(driver.function(image, "reverse"), (1,), (N,), (at,), shared=N * 4) == 0
    return driver.get(at, np.empty(N, "f4")).tolist()


def test_dynamic_shared_memory(image: bytes) -> None:
    assert in_child(dynamic, image).value == list(range(N))[::-1]


def unloaded(driver: Driver, image: bytes) -> tuple[float, int]:
    driver.begin()
    module, function, at = c_void_p(), c_void_p(), ones(driver)
    driver.do("cuModuleLoadData", byref(module), image)
    driver.do("cuModuleGetFunction", byref(function), module, b"add")
    stream = stream_of(driver)
    add(driver, function, at, 1.0, stream)
    driver.do("cuModuleUnload", module)
    return first(driver, at), add(driver, function, at, 1.0, stream)


def test_a_module_is_unloaded_behind_its_kernels(image: bytes) -> None:
    assert in_child(unloaded, image).value == (2.0, INVALID_HANDLE)


# Log and faults.


def third(driver: Driver, image: bytes) -> list[int]:
    driver.begin()
    at, function = ones(driver), driver.function(image, "add")
    return [add(driver, function, at, 1.0) for _ in range(4)]


def test_faults_and_the_log(image: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    environment = {"EDGE_CUDA_LOG": str(log), "EDGE_CUDA_FAULT": "cuLaunchKernel:700:3"}
    assert in_child(third, image, **environment).value == [0, 0, ILLEGAL_ADDRESS, ILLEGAL_ADDRESS]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    launches = [line for line in lines if line["call"] == "cuLaunchKernel"]
    assert [line["result"] for line in launches] == [0, 0, 700, 700]
    assert launches[0]["kernel"] == "add" and launches[0]["block_x"] == N and launches[0]["grid_x"] == 1
    loaded = next(line for line in lines if line["call"] == "cuModuleLoadData")
    assert loaded["kernels"] == "add reverse large at"


def test_a_fault_may_be_a_driver_that_hangs() -> None:
    script = "import sys; from tests.emulated_cuda.host import Driver; Driver(sys.argv[1]).begin()"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-c", script, str(ensure_emulated_cuda())],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"EDGE_CUDA_FAULT": "cuInit:hang"},
            timeout=3,
            check=False,
        )


def test_it_runs_on_two_architectures() -> None:
    assert ARCHITECTURES == ("x86_64", "aarch64")
    with pytest.raises(UsageError, match="does not run on armv7a"):
        ensure_emulated_cuda("armv7a")
    with pytest.raises(UsageError, match="does not run on armv7a"):
        compile_emulated(KERNELS, LINUX["armv7a"])

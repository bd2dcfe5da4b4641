"""The emulated driver behaves as CUDA's reference says drivers do, where a program may get it wrong."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
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

from tests.testbeds.cuda.child import in_child
from tests.testbeds.cuda.host import Address, Driver
from tests.testbeds.cuda.launched import (
    ILLEGAL_ADDRESS,
    INVALID_CONTEXT,
    INVALID_HANDLE,
    INVALID_IMAGE,
    INVALID_VALUE,
    KERNELS,
    NO_BINARY,
    NO_DEVICE,
    NOT_INITIALIZED,
    OUT_OF_MEMORY,
    N,
    add,
    first,
    ones,
    stream_of,
)
from toolchain.architectures.table import LINUX
from toolchain.errors import UsageError
from toolchain.lowering.dialects.nvrtc import compile_cuda
from toolchain.testbeds.cuda import compile_emulated, ensure_emulated_cuda
from toolchain.testbeds.cuda.driver import ARCHITECTURES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_emulated(KERNELS, LINUX[platform.machine()])


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


def test_driver_introduces_itself() -> None:
    answers = in_child(introduction).value
    assert answers["before"] == NOT_INITIALIZED and answers["version"] == 13000
    assert (answers["count"], answers["name"], answers["capability"]) == (1, "emulated", [0, 0])
    assert answers["beyond"] == 101 and answers["without context"] == INVALID_CONTEXT


def test_environment_sets_device_properties() -> None:
    environment = {
        "EDGE_CUDA_VERSION": "12040",
        "EDGE_CUDA_DEVICES": "2",
        "EDGE_CUDA_CAPABILITY": "9.0",
        "EDGE_CUDA_MEMORY": "4096",
    }
    answers = in_child(introduction, **environment).value
    assert (answers["version"], answers["count"], answers["capability"]) == (12040, 2, [9, 0])
    assert answers["memory"] == 4096
    none = in_child(introduction, EDGE_CUDA_DEVICES="0").value
    assert none["init"] == NO_DEVICE


def names(driver: Driver) -> tuple[str, str, int]:
    name, words = c_char_p(), c_char_p()
    driver.do("cuGetErrorName", 700, byref(name))
    driver.do("cuGetErrorString", 700, byref(words))
    unknown = driver.call("cuGetErrorName", 12345, byref(c_char_p()))
    return (name.value or b"").decode(), (words.value or b"").decode(), unknown


def test_errors_have_names() -> None:
    error_names = in_child(names).value
    assert error_names == (
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "an illegal memory access was encountered",
        INVALID_VALUE,
    )


# Memory.


def memory_errors(driver: Driver) -> dict[str, Any]:
    driver.begin()
    at, host = driver.allocated(256), np.zeros(64, "f4")
    to = c_void_p(host.ctypes.data)
    outside = Address(at.value + 255)
    fresh = driver.get(at, host)
    errors = {
        "fresh": bool(np.isnan(fresh).all()),
        "too large": driver.call("cuMemAlloc_v2", byref(Address()), c_size_t(4096)),
        "of size 0": driver.call("cuMemAlloc_v2", byref(Address()), c_size_t(0)),
        "beyond": driver.call("cuMemcpyDtoH_v2", to, outside, c_size_t(2)),
        "host": driver.call("cuMemcpyDtoH_v2", to, Address(host.ctypes.data), c_size_t(4)),
        "middle": driver.call("cuMemFree_v2", Address(at.value + 4)),
    }
    driver.do("cuMemFree_v2", at)
    errors["freed"] = driver.call("cuMemcpyDtoH_v2", to, at, c_size_t(4))
    errors["twice"] = driver.call("cuMemFree_v2", at)
    free, total = c_size_t(), c_size_t()
    driver.do("cuMemGetInfo_v2", byref(free), byref(total))
    return errors | {"free": free.value, "again": driver.allocated(4096).value != at.value}


def test_memory() -> None:
    errors = in_child(memory_errors, EDGE_CUDA_MEMORY="4096").value
    assert errors == {
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
    """The host cannot use a GPU's pointer: with the emulated driver, too, doing so ends the process."""
    script = (
        "import ctypes, sys; from tests.testbeds.cuda.host import Driver; d = Driver(sys.argv[1]).begin();"
        "at = d.allocated(64); print('here', flush=True); ctypes.string_at(at.value, 1); print('there')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(ensure_emulated_cuda())],
        cwd=Path(__file__).parents[3],
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
    return (c_void_p * len(arguments))(*(addressof(argument) for argument in arguments))


@pytest.mark.parametrize(("far", "freed"), [(N, False), (1 << 40, False), (0, True)])
def test_illegal_address_is_sticky(image: bytes, far: int, freed: bool) -> None:
    ended = in_child(far_store, image, far, freed)
    assert set(ended.value) == {ILLEGAL_ADDRESS}
    assert "kernel at, block (0, 0, 0), thread (0, 0, 0): it writes 4 bytes" in ended.said


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
    results = {
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
    results["large"] = driver.launch(large, one, (N,), (at,), shared=100000)
    return results


def test_modules_and_launches(image: bytes) -> None:
    cubin = bytes(compile_cuda('extern "C" __global__ void f() {}', 90).code.code)
    results = in_child(modules, image, cubin).value
    assert results == {
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


def test_module_unloads_after_its_kernels(image: bytes) -> None:
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


def test_hanging_driver_fault() -> None:
    script = "import sys; from tests.testbeds.cuda.host import Driver; Driver(sys.argv[1]).begin()"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-c", script, str(ensure_emulated_cuda())],
            cwd=Path(__file__).parents[3],
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

"""The tests' tiny networks, compiled for OpenCL by TVM's own code generator and schedules (DLight)."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax, te

from tests.runtime.networks import CLASSES, TARGETS, _dense
from toolchain.linking import ZigLinker
from toolchain.lowering.objects.export import export_objects
from toolchain.profiles import load_profile

MOST_ITEMS = 1 << 20  # more than any device takes in one work group
BROKEN = "this is no OpenCL C\n"


def target(arch: str) -> tvm.target.Target:
    """Return Mali's target, with limits that other devices keep to as well."""
    return tvm.target.Target(
        {
            "kind": "opencl",
            "device": "mali",
            "max_threads_per_block": 256,
            "max_num_threads": 256,
            "max_shared_memory_per_block": 32768,
            "thread_warp_size": 1,
        },
        host=TARGETS[arch],
    )


@lru_cache
def network(arch: str = "x86_64") -> bytes:
    """Return the library of `dense` (tests/runtime/networks.py) with its kernels in OpenCL C."""
    with target(arch):
        return _linked(tvm.compile(_dense(), target=target(arch)), arch)


@lru_cache
def large_group(arch: str = "x86_64") -> bytes:
    """Return the library of a function `main`, y = x + 1, in one work group of `MOST_ITEMS` items."""
    return _linked(tvm.compile(_plus_one(MOST_ITEMS, MOST_ITEMS), target=target(arch)), arch)


@lru_cache
def square_group(arch: str = "x86_64") -> bytes:
    """Return the library of a function `main`, y = x + 1, in one work group of 32 x 32 items."""
    return _linked(tvm.compile(_plus_one(1024, 32, 32), target=target(arch)), arch)


@lru_cache
def plus_one(arch: str = "x86_64") -> bytes:
    """Return the library of a function `main`, y = x + 1 for 64 numbers."""
    return _linked(tvm.compile(_plus_one(64, 16), target=target(arch)), arch)


@lru_cache
def workspace(arch: str = "x86_64") -> bytes:
    """Return the library of a network y = 2 * (x + 1), z = y, y; x of 1024 numbers.

    The first function has two kernels and memory of its own between them; `z` is made when that is done.
    """
    x = te.placeholder((1024,), name="x")
    more = te.compute((1024,), lambda i: x[i] + np.float32(1), name="more")
    twice = te.compute((1024,), lambda i: more[i] * np.float32(2), name="twice")
    y = te.placeholder((1024,), name="y")
    both = te.compute((2048,), lambda i: y[i % 1024], name="both")
    builder = relax.BlockBuilder()
    first = builder.add_func(_scheduled("first", [x, twice], "more", "twice"), "first")
    second = builder.add_func(_scheduled("second", [y, both], "both"), "second")
    value = relax.Var("x", relax.TensorType((1024,), "float32"))
    with builder.function("main", [value]):
        for function, numbers in ((first, 1024), (second, 2048)):
            result_type = relax.TensorType((numbers,), "float32")
            value = builder.emit(relax.call_tir(function, (value,), result_type))
        builder.emit_func_output(value)
    return _linked(tvm.compile(builder.get(), target=target(arch)), arch)


@lru_cache
def one_kernel(arch: str = "x86_64") -> bytes:
    """Return the library of a network y = x + 1 for 64 numbers."""
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] + np.float32(1), name="y")
    builder = relax.BlockBuilder()
    function = builder.add_func(_scheduled("plus_one", [x, y], "y"), "plus_one")
    vector = relax.TensorType((64,), "float32")
    value = relax.Var("x", vector)
    with builder.function("main", [value]):
        builder.emit_func_output(builder.emit(relax.call_tir(function, (value,), vector)))
    return _linked(tvm.compile(builder.get(), target=target(arch)), arch)


def _scheduled(
    name: str, tensors: list[Any], *blocks: str, group: tuple[int, ...] = (16,)
) -> tvm.tirx.PrimFunc:
    schedule = tvm.s_tir.Schedule(te.create_prim_func(tensors))
    for block in blocks:
        _bind(schedule, block, *group)
    return schedule.mod["main"].with_attr({"global_symbol": name, "tirx.is_scheduled": True})


def _plus_one(count: int, *group: int) -> tvm.IRModule:
    x = te.placeholder((count,), name="x")
    function = te.create_prim_func([x, te.compute((count,), lambda i: x[i] + np.float32(1), name="y")])
    schedule = tvm.s_tir.Schedule(function)
    _bind(schedule, "y", *group)
    return tvm.IRModule({"main": schedule.mod["main"]})


def _bind(schedule: Any, block: str, *group: int) -> None:
    blocks, *items = schedule.split(schedule.get_loops(block)[0], [None, *group])
    schedule.bind(blocks, "blockIdx.x")
    for loop, axis in zip(items, "xyz", strict=False):
        schedule.bind(loop, f"threadIdx.{axis}")


def _linked(executable: Any, arch: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="edge-rt-tests-") as name:
        folder = Path(name)
        ZigLinker().link(export_objects(executable, folder), folder / "out.so", load_profile(CLASSES[arch]))
        return (folder / "out.so").read_bytes()


def code_of(library: bytes) -> str:
    """Return a library's OpenCL code."""
    code = library[_place(library)]
    return code[code.index(b"// Function: ") :].decode()


def changed(library: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return a library whose OpenCL code is another of the same length."""
    place = _place(library)
    new = change(library[place])
    assert len(new) == place.stop - place.start and new != library[place]
    return library[: place.start] + new + library[place.stop :]


def _place(library: bytes) -> slice:
    """Return where the device's module lies."""
    name = struct.pack("<Q", len("opencl")) + b"opencl"
    begin = library.index(name) + len(name)
    (size,) = struct.unpack_from("<Q", library, begin)
    return slice(begin + 8, begin + 8 + size)

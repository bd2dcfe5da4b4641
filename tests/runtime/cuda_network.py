"""Tiny networks for CUDA, whose kernels the emulated driver runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, te

from tests.runtime.networks import TARGETS, _dense
from tests.runtime.opencl_network import _linked, _scheduled
from toolchain.architectures.table import LINUX
from toolchain.lowering.dialects.cuda import CUDA, container
from toolchain.lowering.dialects.source import KernelSource, KernelUnit, MachineCode
from toolchain.lowering.graph.pipeline import fuse, lower_fused
from toolchain.testbeds.cuda import compile_emulated

COMPILER = 13000  # CUDA 13.0
NUMBERS = 1024
WEIGHT = np.linspace(-2, 2, NUMBERS, dtype="float32")
Change = Callable[[str], str]
Damage = Callable[[bytes], bytes]


def target(arch: str = "x86_64") -> tvm.target.Target:
    options = {
        "kind": "cuda",
        "arch": "sm_80",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    }
    return tvm.target.Target(options, host=TARGETS[arch])


@lru_cache
def chain() -> bytes:
    """Return the library of `chained`, whose kernels but the first and the last become one graph."""
    return library(_chain())


def chained(x: np.ndarray) -> np.ndarray:
    """Return what `chain` computes, by numpy."""
    return ((2 * (x + 1 + 1) * WEIGHT) + 1) * 2


@lru_cache
def dense() -> bytes:
    """Return the library of `dense` (tests/runtime/networks.py)."""
    cuda_target = target()
    fused = fuse(_dense(), cuda_target)
    with cuda_target:
        rules = (tvm.s_tir.dlight.gpu.Matmul(), tvm.s_tir.dlight.gpu.Fallback())
        return library(tvm.s_tir.dlight.ApplyDefaultSchedule(*rules)(fused))


@lru_cache
def shared(numbers: int) -> bytes:
    """Return the library of y = reversed x + 1, in one kernel that asks for shared memory for all of x."""
    x = te.placeholder((numbers,), name="x")
    y = te.compute((numbers,), lambda i: x[numbers - 1 - i] + np.float32(1), name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
    block = schedule.add_unit_loop(schedule.get_loops("y")[0])
    copy = schedule.cache_read("y", 0, "shared.dyn")
    schedule.bind(block, "blockIdx.x")
    schedule.compute_at(copy, block)
    for buffer in (copy, "y"):
        _, threads = schedule.split(schedule.get_loops(buffer)[-1], [None, 256])
        schedule.bind(threads, "threadIdx.x")
    attributes = {"global_symbol": "reversed", "tirx.is_scheduled": True}
    return library(_network(schedule.mod["main"].with_attrs(attributes), numbers))


def plus_one(
    count: int,
    *block: int,
    change: Change = str,
    code: Sequence[MachineCode] | None = None,
    damage: Damage = bytes,
) -> bytes:
    """Return the library of a network y = x + 1, in one kernel.

    Parameters
    ----------
    change
        Changes the kernel's source, where TVM could not be made to write a wrong one.
    code
        Machine code in the place of that for the emulated driver.
    damage
        Changes what the library embeds.
    """
    x = te.placeholder((count,), name="x")
    y = te.compute((count,), lambda i: x[i] + np.float32(1), name="y")
    return library(_network(_scheduled("plus_one", [x, y], "y", group=block), count), change, code, damage)


def _network(function: tvm.tirx.PrimFunc, numbers: int) -> tvm.IRModule:
    """Return the network of one function from a vector to another."""
    builder = relax.BlockBuilder()
    called = builder.add_func(function, str(function.attrs["global_symbol"]))
    vector = relax.TensorType((numbers,), "float32")
    value = relax.Var("x", vector)
    with builder.function("main", [value]):
        builder.emit_func_output(builder.emit(relax.call_tir(called, (value,), vector)))
    return builder.get()


def library(
    module: tvm.IRModule,
    change: Change = str,
    code: Sequence[MachineCode] | None = None,
    damage: Damage = bytes,
) -> bytes:
    """Lower a network of scheduled functions as the toolchain does; return its library."""
    return _library(lower_fused(module, target()), change, code, damage)


def _library(
    module: tvm.IRModule, change: Change, code: Sequence[MachineCode] | None, damage: Damage
) -> bytes:
    CUDA.prepare()

    def embedded(source: str, _target: object) -> bytes:
        names = re.findall(r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\([^;{]*\) \{", source)
        codes = (
            code
            if code is not None
            else [MachineCode(0, COMPILER, compile_emulated(change(source), LINUX["x86_64"]))]
        )
        kernels = tuple(KernelSource(name, (), (), "") for name in names)
        return damage(container([KernelUnit(kernels, tuple(codes))], ""))

    tvm_ffi.register_global_func("tvm_callback_cuda_postproc", embedded, override=True)
    try:
        with target():
            executable = tvm.compile(module, target=target(), relax_pipeline=tvm.transform.Sequential([]))
    finally:
        tvm_ffi.registry.remove_global_func("tvm_callback_cuda_postproc")
    return _linked(executable, "x86_64")


def _chain() -> tvm.IRModule:
    """Build a network of five kernels in four functions; the second function has memory of its own."""
    vector = relax.TensorType((NUMBERS,), "float32")
    builder = relax.BlockBuilder()
    x, w = te.placeholder((NUMBERS,), name="x"), te.placeholder((NUMBERS,), name="w")

    def one_more(name: str) -> Any:
        y = te.compute((NUMBERS,), lambda i: x[i] + np.float32(1), name="y")
        return builder.add_func(_scheduled(name, [x, y], "y"), name)

    more = te.compute((NUMBERS,), lambda i: x[i] + np.float32(1), name="more")
    twice = te.compute((NUMBERS,), lambda i: more[i] * np.float32(2), name="twice")
    scaled = te.compute((NUMBERS,), lambda i: x[i] * w[i], name="scaled")
    last = te.compute((NUMBERS,), lambda i: x[i] * np.float32(2), name="last")
    value = relax.Var("x", vector)
    functions = [
        (one_more("first"), ()),
        (builder.add_func(_scheduled("own_memory", [x, twice], "more", "twice"), "own_memory"), ()),
        (builder.add_func(_scheduled("scale", [x, w, scaled], "scaled"), "scale"), (relax.const(WEIGHT),)),
        (one_more("again"), ()),
        (builder.add_func(_scheduled("double", [x, last], "last"), "double"), ()),
    ]
    with builder.function("main", [value]):
        for function, more_arguments in functions:
            value = builder.emit(relax.call_tir(function, (value, *more_arguments), vector))
        builder.emit_func_output(value)
    return builder.get()

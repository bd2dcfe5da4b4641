"""Tiny networks, compiled by TVM and linked by our linker."""

from __future__ import annotations

import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.script import tirx as T  # noqa: N812

from toolchain.linking import ZigLinker
from toolchain.lowering.objects.export import export_objects
from toolchain.profiles import load_profile

TARGETS = {
    "x86_64": {"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "mcpu": "x86-64"},
    "aarch64": {
        "kind": "llvm",
        "mtriple": "aarch64-unknown-linux-gnu",
        "mcpu": "cortex-a72",
        "mattr": ["+neon"],
    },
    "armv7": {
        "kind": "llvm",
        "mtriple": "armv7a-unknown-linux-gnueabihf",
        "mcpu": "cortex-a9",
        "mattr": ["+neon"],
        "mfloat-abi": "hard",
    },
}
CLASSES = {"x86_64": "x86_64", "aarch64": "rk3399", "armv7": "pynq"}
WIDE = 2304  # its square is 20 MiB of numbers
ROWS, LONG = 32, 5000
WEIGHT = np.linspace(-1, 1, 8 * 16, dtype="float32").reshape(8, 16)


@lru_cache
def library(name: str, arch: str) -> bytes:
    """Return the bytes of a network's library: `dense`, `identity`, `rows` or `wide`."""
    folder = Path(tempfile.mkdtemp(prefix="edge-rt-tests-"))
    try:
        with tvm.target.Target(TARGETS[arch]) as target:
            modules = {"dense": _dense, "identity": _identity, "rows": _rows, "wide": _wide}[name]()
            executable = tvm.compile(modules, target=target)
        out = folder / "out.so"
        ZigLinker().link(export_objects(executable, folder), out, load_profile(CLASSES[arch]))
        return out.read_bytes()
    finally:
        shutil.rmtree(folder)


def dense(x: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the network `dense` computes, by numpy."""
    hidden = np.maximum(x @ WEIGHT, 0)
    return hidden, np.exp(hidden * np.float32(0.125)) + bias


def wide_weight() -> np.ndarray:
    """Return the one, large constant of the network `wide`."""
    return np.arange(WIDE * WIDE, dtype="float32").reshape(WIDE, WIDE)


def _wide() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, WIDE), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.matmul(x, relax.const(wide_weight()))))
    return builder.get()


def _dense() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    bias = relax.Var("bias", relax.TensorType((16,), "float32"))
    with builder.function("main", [x, bias]):
        hidden = builder.emit(relax.op.nn.relu(relax.op.matmul(x, relax.const(WEIGHT))))
        scaled = builder.emit(relax.op.multiply(hidden, relax.const(np.float32(0.125))))
        result = builder.emit(relax.op.add(relax.op.exp(scaled), bias))
        builder.emit_func_output(relax.Tuple([hidden, result]))
    return builder.get()


@T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
def _reversed_rows(
    x: T.Buffer((ROWS, LONG), "float32"),  # type: ignore[valid-type]
    y: T.Buffer((ROWS, LONG), "float32"),  # type: ignore[valid-type]
) -> None:
    T.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True})
    for i in T.parallel(ROWS):
        row = T.alloc_buffer((LONG,), "float32")  # too large for the stack
        for j in range(LONG):
            row[j] = x[i, j]
        for j in range(LONG):
            y[i, j] = row[LONG - 1 - j]


def _rows() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((ROWS, LONG), "float32"))
    with builder.function("main", [x]):
        function = builder.add_func(_reversed_rows, "reversed_rows")
        builder.emit_func_output(
            builder.emit(relax.call_tir(function, [x], out_ty=relax.TensorType((ROWS, LONG), "float32")))
        )
    return builder.get()


def _identity() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(None, None, ndim=-1))
    y = relax.Var("y", relax.TensorType((2,), "float32"))  # without a kernel there is no object to link
    with builder.function("main", [x, y]):
        twice = builder.emit(relax.op.add(y, y))
        builder.emit_func_output(relax.Tuple([x, twice]))
    return builder.get()

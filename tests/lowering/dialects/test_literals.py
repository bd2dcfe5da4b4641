"""A constant in a kernel's source is the number that was meant, to the last bit, in every dialect."""

from __future__ import annotations

import re
from contextlib import nullcontext

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import s_tir, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from tests.opencl import clang, pocl
from tests.runtime.opencl_network import target
from toolchain import tvm_compat
from toolchain.backends.packed.loops import arithmetic
from toolchain.lowering.dialects.literals import CUDA_FORMS, with_constants_named, with_constants_written
from toolchain.lowering.kernels.device import kernels_of

BITS = {"float16": "uint16", "float32": "uint32", "float64": "uint64"}
KINDS = tuple(BITS)
OPENCL = target("x86_64")
CUDA = tvm.target.Target({"kind": "cuda", "arch": "sm_70", "host": "llvm"})
NAMES = {"INFINITY": np.inf, "NAN": np.nan}  # of OpenCL C


def telling(kind: str) -> np.ndarray:
    """Return numbers of a type that a careless writer gets wrong."""
    limits = np.finfo(kind)
    plain = [12582912.0, 0.693359375, -2.121944400546905e-04, 1 / 3, 0.1, 1.0, -5.0, 3.0, 2.0**-126, 1e22]
    edges = [limits.max, limits.min, limits.tiny, limits.smallest_subnormal, 1 + limits.eps]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan]
    with np.errstate(over="ignore"):
        return np.array([*plain, *edges, *special]).astype(kind)


def stores(numbers: np.ndarray, *, device: bool = True) -> tvm.IRModule:
    """Return a function (a kernel by itself, if a device runs it) that stores what stands in its code."""
    kind = str(numbers.dtype)
    with IRBuilder() as builder, ir.prim_func():
        ir.func_name("stored")
        ir.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True, "global_symbol": "stored"})
        memory = ir.arg("y", ir.buffer(numbers.shape, kind))
        with ir.launch_thread("threadIdx.x", 1) if device else nullcontext():
            for place, number in enumerate(numbers):
                ir.buffer_store(memory, tirx.const(float(number), kind), [place])
    return tvm.IRModule({"stored": builder.get()})


def source_of(numbers: np.ndarray, made_for: tvm.target.Target) -> str:
    _host, device = tvm_compat.lower_functions(stores(numbers), made_for)
    assert device is not None
    if made_for.kind.name == "opencl":
        (only,) = kernels_of(device, made_for)
        return only.source
    built = tvm.get_global_func("target.build.cuda")(with_constants_named(device), made_for)
    return with_constants_written(str(built.inspect_source("")), CUDA_FORMS)


def read(source: str, kind: str) -> np.ndarray:
    """Return the numbers that a C compiler reads in the stores of a kernel."""
    found = re.findall(r"y\w*\[(?:\(int\))?(\d+)\] = (.*);", source)
    by_place = {int(place): number(text, kind) for place, text in found}
    return np.array([by_place[place] for place in range(len(by_place))], kind)


def number(text: str, kind: str) -> float:
    """Return what an expression of constants is worth."""
    text = text.strip()
    if text.startswith("(-") and text.endswith(")"):
        return -number(text[2:-1], kind)
    text = re.sub(r"^\((half|double)\)", "", text)
    if call := re.fullmatch(r"__float2half_rn\((.*)\)", text):
        return number(call[1], "float32")
    if call := re.fullmatch(r"__\w+_as_(half|float|double)\(0x([0-9a-f]+)(?:LL)?\)", text):
        return float(np.array(int(call[2], 16), BITS[kind]).view(kind))
    if text in NAMES:
        return NAMES[text]
    assert re.fullmatch(r"-?\d[\d.]*(e[+-]\d+)?f?", text) and re.search(r"[.e]", text), text
    # Whoever reads a float as the nearest double first rounds twice, and must come to the same.
    return float(np.float32(text[:-1])) if text.endswith("f") else float(text)


def same(found: np.ndarray, meant: np.ndarray) -> bool:
    none = np.isnan(meant)
    bits = BITS[str(meant.dtype)]
    return bool((np.isnan(found) == none).all() and (found.view(bits) == meant.view(bits))[~none].all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made_for", [OPENCL, CUDA], ids=["opencl", "cuda"])
def test_telling_numbers(made_for: tvm.target.Target, kind: str) -> None:
    meant = telling(kind)
    found = read(source_of(meant, made_for), kind)
    assert same(found, meant), dict(zip(meant.tolist(), found.tolist(), strict=True))


@given(bits=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40), kind=st.sampled_from(KINDS))
def test_whatever_the_number(bits: list[int], kind: str) -> None:
    width = 8 * np.dtype(kind).itemsize
    meant = np.array([each % 2**width for each in bits], BITS[kind]).view(kind)
    for made_for in (OPENCL, CUDA):
        assert same(read(source_of(meant, made_for), kind), meant)


@pytest.mark.slow
def test_a_compiler_of_opencl_reads_the_same_bits() -> None:
    meant = telling("float32")
    source = source_of(meant, OPENCL)
    assert not clang.problems(source)
    (found,) = pocl.outputs(source, "stored_kernel", [1], [1], [np.zeros_like(meant)])
    assert same(found, meant)


def test_vectors_have_the_same_constants() -> None:
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] + tirx.const(arithmetic._ROUND, "float32"), name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    items, vector = schedule.split(schedule.get_loops("y")[0], [None, 4])
    schedule.bind(items, "threadIdx.x")
    schedule.vectorize(vector)
    _host, device = tvm_compat.lower_functions(schedule.mod, OPENCL)
    assert device is not None
    (only,) = kernels_of(device, OPENCL)
    assert only.source.count("12582912.0f") == 4 and "1.258291e" not in only.source


def test_a_cpu_s_constants_are_exact() -> None:
    """They go to LLVM as bits, and never become text."""
    meant = telling("float32")

    library = tvm.compile(stores(meant, device=False), target=tvm.target.Target({"kind": "llvm"}))
    found = tvm.runtime.tensor(np.zeros_like(meant))
    library["stored"](found)
    assert same(found.numpy(), meant)

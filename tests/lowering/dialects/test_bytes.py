"""Truth values and bytes in kernels: sources that compile, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx

from tests.opencl import clang, pocl
from tests.runtime.opencl_network import target
from toolchain import tvm_compat
from toolchain.lowering.kernels.device import kernels_of

TARGET = target("x86_64")
KINDS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "float32", "float64")
LENGTH = 48
_WIDE = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


def source_of(
    kinds: Sequence[str], compute: Callable[..., tirx.Expr], lanes: int, name: str, length: int = LENGTH
) -> str:
    """Return the kernel that computes each element by itself, by vectors of so many lanes."""
    inputs = [te.placeholder((LENGTH * 2,), dtype=kind, name=f"x{place}") for place, kind in enumerate(kinds)]
    out = te.compute((length,), lambda i: compute(i, *inputs), name="y")
    schedule = s_tir.Schedule(te.create_prim_func([*inputs, out]))
    items, vector = schedule.split(schedule.get_loops("y")[0], [None, lanes])
    schedule.bind(items, "threadIdx.x")
    schedule.vectorize(vector)
    named = schedule.mod["main"].with_attr("global_symbol", name)
    _host, device = tvm_compat.lower_functions(tvm.IRModule({name: named}), TARGET)
    assert device is not None
    (only,) = kernels_of(device, TARGET)
    return only.source


def operations(kind: str) -> dict[str, tuple[tuple[str, ...], Callable[..., tirx.Expr]]]:
    """Return what is tried of a type: the types of what it reads, and the element at a place."""
    three = tirx.const(3, kind)
    return {
        "choice": ((kind,), lambda i, x: tirx.Select(x[i] < three, three, x[i])),
        "number of a comparison": ((kind,), lambda i, x: (x[i] < three).astype(kind)),
        "chosen by a mask": (("bool", kind, kind), lambda i, c, x, y: tirx.Select(c[i], x[i], y[i])),
        "chosen by one truth": (("bool", kind, kind), lambda i, c, x, y: tirx.Select(c[0], x[i], y[i])),
        "number of a truth": (("bool",), lambda i, c: c[i].astype(kind)),
        "truth of a number": ((kind,), lambda i, x: x[i].astype("bool")),
        "comparison": ((kind, kind), lambda i, x, y: x[i] < y[i]),
        "larger": ((kind, kind), lambda i, x, y: tirx.max(x[i], y[i])),
        "all of three kinds": (
            (kind, "float32", "bool"),
            lambda i, x, y, c: tirx.all(x[i] < three, y[i] < 3.0, c[i]),
        ),
        "what lies apart": ((kind,), lambda i, x: x[i * 2] + three),
        "what begins anywhere": ((kind,), lambda i, x: x[i + 3]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_compiles(kind: str) -> None:
    sources = [
        source_of(kinds, compute, lanes, f"k{place}_{lanes}")
        for place, (kinds, compute) in enumerate(operations(kind).values())
        for lanes in (1, 4)
    ]
    assert not clang.problems(_WIDE + "\n".join(sources))
    assert "bool*" not in "".join(sources)


@dataclass(frozen=True)
class Operands:
    """Two arrays of truths and two of numbers: buffers of a kernel, or numpy's."""

    a: Any
    b: Any
    x: Any
    y: Any


COMPUTED: dict[str, tuple[Callable[[Any, Operands], tirx.Expr], Callable[[Operands], np.ndarray]]] = {
    "and": (lambda i, of: tirx.all(of.a[i], of.b[i]), lambda of: of.a & of.b),
    "or of mask and comparison": (
        lambda i, of: tirx.any(of.a[i], of.x[i] < of.y[i]),
        lambda of: of.a | (of.x < of.y),
    ),
    "not": (lambda i, of: tirx.Not(of.a[i]), lambda of: ~of.a),
    "exclusive or": (lambda i, of: tirx.NE(of.a[i], of.b[i]), lambda of: of.a ^ of.b),
    "comparison": (lambda i, of: of.x[i] < of.y[i], lambda of: of.x < of.y),
    "equal": (lambda i, of: tirx.EQ(of.x[i], of.y[i]), lambda of: of.x == of.y),
    "truth of a number": (lambda i, of: of.x[i].astype("bool"), lambda of: of.x != 0),
    "of one truth": (
        lambda i, of: tirx.Select(of.a[0], of.b[i], of.x[i] < of.y[i]),
        lambda of: of.b if of.a[0] else of.x < of.y,
    ),
    "what lies apart": (lambda i, of: of.a[i * 2], lambda of: of.a[::2]),
}
"""Name -> a truth at a place, and all of them as numpy has them."""


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", COMPUTED)
def test_truths_are_zeros_and_ones(name: str, lanes: int) -> None:
    random = np.random.default_rng(0)
    truths = [random.integers(0, 2, 2 * LENGTH).astype(bool) for _ in range(2)]
    numbers = [random.integers(-2, 3, 2 * LENGTH).astype("f4") for _ in range(2)]
    compute, expected = COMPUTED[name]
    count = 16
    kinds = ("bool", "bool", "float32", "float32")
    source = source_of(kinds, lambda i, *of: compute(i, Operands(*of)), lanes, "truth", count)
    used = [array for place, array in enumerate((*truths, *numbers)) if f"x{place}_ptr" in source]
    memory = [array.view("u1") if array.dtype == bool else array for array in used]
    memory.append(np.full(count, 7, "u1"))
    done = pocl.outputs(source, "truth_kernel", [1], [count // lanes], memory)
    np.testing.assert_array_equal(done[-1], expected(Operands(*truths, *numbers))[:count].astype("u1"))

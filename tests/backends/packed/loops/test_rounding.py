"""Rounding to bytes by an addition: halves go to even numbers, whatever the zero point; bounds are kept."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.lowering.executable import virtual_machine
from toolchain.backends.packed.loops.function import by_additions
from toolchain.backends.packed.machines import AVX2, CUDA, OPENCL
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.lowering.graph.pipeline import fuse
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

TARGET = target_for(load_profile("x86_64")).target
HALVES = np.arange(-600, 600, dtype="f4") / 2
VALUES = np.concatenate(
    [HALVES, np.nextafter(HALVES, np.float32(np.inf)), [1e9, -1e9, np.inf, -np.inf, 2.0**31, -0.0]]
).astype("f4")


def rounding(dtype: str, zero: int) -> tvm.IRModule:
    """Return a network that rounds to steps of 1."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, len(VALUES)), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            constants = relax.const(np.float32(1)), relax.const(np.array(zero, dtype))
            out = builder.emit_output(relax.op.quantize(x, *constants, 1, dtype))
        builder.emit_func_output(out)
    return fuse(builder.get(), TARGET)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "zero"), [("uint8", 0), ("uint8", 7), ("uint8", 128), ("int8", 0), ("int8", -11)]
)
def test_it_is_what_rounding_gives(dtype: str, zero: int) -> None:
    made = rewrite(rounding(dtype, zero), Choices(AVX2))
    assert "round" not in str(made.module)
    ends = np.iinfo(dtype)
    expected = np.clip(np.rint(VALUES.astype("f8")) + zero, ends.min, ends.max).astype(dtype)
    machine = virtual_machine(made.module, TARGET)
    found = machine["main"](tvm.runtime.tensor(VALUES[None])).numpy()[0]
    assert np.array_equal(found, expected)


def test_devices_keep_their_own_rounding() -> None:
    for machine in (OPENCL, CUDA):
        (made,) = rewrite(rounding("uint8", 7), Choices(machine.of(1))).made.values()
        assert "round" in str(made.func)


def test_rounding_without_bounds_is_left_alone() -> None:
    x = tvm.te.placeholder((8,), "float32", name="x")
    whole = tvm.te.compute((8,), lambda i: tvm.tirx.round(x[i]).astype("uint8"), name="whole")
    plain = tvm.te.create_prim_func([x, whole])
    assert "round" in str(by_additions(plain))

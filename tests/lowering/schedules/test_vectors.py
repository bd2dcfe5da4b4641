"""LLVM's loop vectoriser: off for generated code, on for all other, whatever was compiled before."""

from __future__ import annotations

import pytest
import tvm

from tests.backends.packed.computed import loaded
from tests.backends.packed.drawn import Network, Pointwise, merged
from tests.backends.packed.windows import Conv, Window
from tests.lowering.executable import source
from tests.lowering.scheduled import by_rows
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.schedules.vectors import target_of_code
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

RK3399 = target_for(load_profile("rk3399"))


@pytest.fixture(scope="module")
def fused() -> tvm.IRModule:
    same = Window((3,) * 3, pads=((1, 1),) * 3)
    network = loaded(merged([Network((1, 20, 7, 64), (Conv(24, same), Pointwise("silu")))]))
    return fuse(network.module, RK3399.target)


def generated(fused: tvm.IRModule) -> tvm.IRModule:
    return rewrite(fused, Choices(machine_of(RK3399))).module


def test_generated_code_alone_is_compiled_without_it(fused: tvm.IRModule) -> None:
    assert "vectorize-loops" in str(target_of_code(generated(fused), RK3399.target))
    assert target_of_code(by_rows(fused), RK3399.target) is RK3399.target
    assert "vectorize-loops" not in str(RK3399.target)


@pytest.mark.slow
def test_it_is_on_again_for_what_is_compiled_next(fused: tvm.IRModule) -> None:
    before = source(by_rows(fused), RK3399.target, "s")
    assert "llvm.loop.isvectorized" in source(by_rows(fused), RK3399.target, "ll")
    assert "llvm.loop.isvectorized" not in source(generated(fused), RK3399.target, "ll")
    assert source(by_rows(fused), RK3399.target, "s") == before

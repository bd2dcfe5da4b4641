"""One function, compiled alone: lowered as by all of TVM's passes, without LLVM's vectors if generated."""

from __future__ import annotations

import pytest
import tvm
import tvm_ffi
from tvm import te

from tests.backends.packed.computed import loaded
from tests.backends.packed.drawn import Network, Pointwise, merged
from tests.backends.packed.windows import Conv, Window
from tests.lowering.kernels.test_pickling import MACHINE, computed, convolution, function
from toolchain import tvm_compat
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.recipe import Computed
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.backends.packed.recognise.read import read
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.kernels import compile as compiling
from toolchain.lowering.kernels.compile import Lowered, lowered
from toolchain.lowering.kernels.pickling import pickled
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.lowering.schedules.rows import default_schedule
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow


def flattened() -> Computed:
    """Return what brings a packed value into a row: its indices are remainders of quotients of remainders."""
    x = te.placeholder((1, 16, 10, 10), "float32", name="x")
    y = te.compute((1, 1600), lambda n, i: x[n, i // 100, i % 100 // 10, i % 10] + 1.0)
    return Computed(read(te.create_prim_func([x, y])), (Layout(8, (0, 0, 0, 0)), None), MACHINE)


def test_llvm_makes_no_vectors_of_generated_code(monkeypatch: pytest.MonkeyPatch) -> None:
    targets: list[str] = []

    def recorded(module: tvm.IRModule, target: tvm.target.Target) -> Lowered:
        targets.append(str(target))
        return lowered(module, target)

    monkeypatch.setattr(compiling, "lowered", recorded)
    target = str(target_for(load_profile("rk3399")).target)
    for recipe in (computed(), Scheduled(default_schedule(function()))):
        assert compiling.compile_kernel(pickled(recipe), target, "kernel")[:4] == b"\x7fELF"
    assert ["vectorize-loops:bool=false" in each for each in targets] == [True, False]


@pytest.mark.parametrize("board", ["x86_64", "pynq"])
def test_the_passes_that_are_left_out_change_nothing(board: str) -> None:
    made = target_for(load_profile(board))
    same = Window((3,) * 3, pads=((1, 1),) * 3)
    network = loaded(merged([Network((1, 20, 7, 24), (Conv(24, same), Pointwise("silu"), Conv(9, same)))]))
    fused = fuse(network.module, made.target)
    scheduled = rewrite(fused, Choices(machine_of(made))).module
    functions = [each for each in scheduled.functions.values() if isinstance(each, tvm.tirx.PrimFunc)]
    for func in (*functions, convolution().function(), flattened().function()):
        module = tvm.IRModule({"kernel": func.with_attr("global_symbol", "kernel")})
        one, (other, device) = lowered(module, made.target), tvm_compat.lower_functions(module, made.target)
        assert one.device is None and device is None
        assert tvm_ffi.structural_equal(one.host, tvm.tirx.transform.SkipAssert()(other))

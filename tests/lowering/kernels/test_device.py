"""Kernels for OpenCL: their source is kept as text, and embedded as TVM itself embeds it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm
from tvm import s_tir, te, tirx
from tvm.runtime import _ffi_api

from tests.runtime.opencl_network import _plus_one, target
from toolchain import tvm_compat
from toolchain.host import host_profile
from toolchain.lowering.dialects.source import KernelUnit
from toolchain.lowering.kernels.code import code_of
from toolchain.lowering.kernels.compile import compile_kernel, compiled, lowered
from toolchain.lowering.kernels.device import device_module, kernels_of, listing
from toolchain.lowering.kernels.part import LibraryPart
from toolchain.lowering.kernels.pickling import pickled
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.lowering.schedules.vectors import EXPLICIT
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import DeviceCode

TARGET = target("x86_64")


def plus_one(count: int = 64) -> tirx.PrimFunc:
    found: tirx.PrimFunc = _plus_one(count, 16)["main"]
    return found


def embedded(module: tvm.runtime.Module) -> str:
    """Return what a library has of a device's module, byte for byte."""
    host = tvm.get_global_func("target.build.llvm")(tvm.IRModule({}), TARGET.host)
    host.import_module(module)
    return str(_ffi_api.ModulePackImportsToC(host, False, ""))


def test_what_is_embedded_is_what_tvm_would_embed() -> None:
    # No constant is in it: those are written in another way (tests/lowering/kernels/test_literals.py).
    x = te.placeholder((64,), name="x")
    schedule = s_tir.Schedule(te.create_prim_func([x, te.compute((64,), lambda i: x[i] + x[i], name="y")]))
    schedule.bind(schedule.split(schedule.get_loops("y")[0], [None, 16])[1], "threadIdx.x")
    schedule.bind(schedule.get_loops("y")[0], "blockIdx.x")
    doubled = schedule.mod["main"]
    module = tvm.IRModule({"kernel_1": doubled.with_attr("global_symbol", "kernel_1")})
    _host, device = tvm_compat.lower_functions(module, TARGET)
    assert device is not None
    part = LibraryPart(b"\x7fELF", KernelUnit(kernels_of(device, TARGET)))
    unit = LibraryPart.of(part.to_bytes()).unit
    kernels = unit.kernels
    assert [(each.name, each.types) for each in kernels] == [("kernel_1_kernel", ("handle", "handle"))]
    assert kernels[0].extents == ("blockIdx.x", "threadIdx.x")
    direct = tvm.get_global_func("target.build.opencl")(device, TARGET)
    assert embedded(device_module([unit], TARGET)) == embedded(direct)


def test_a_source_does_not_depend_on_its_neighbours(tmp_path: Path) -> None:
    (one,) = compiled(plus_one(64), TARGET, "a", tmp_path).kernels
    (other,) = compiled(plus_one(128), TARGET, "b", tmp_path).kernels
    together = device_module([KernelUnit((one,)), KernelUnit((other,))], TARGET).inspect_source("cl")
    assert one.source in together and other.source in together
    assert other.name not in one.source
    assert tvm.get_global_func("tvm_callback_opencl_postproc", allow_missing=True) is None, (
        "TVM is left as it was"
    )


def test_a_part_is_bytes_for_the_store() -> None:
    data = compile_kernel(pickled(Scheduled(plus_one())), str(TARGET), "kernel_2")
    part = LibraryPart.of(data)
    assert part.object[:4] == b"\x7fELF" and part.to_bytes() == data
    assert [kernel.name for kernel in part.unit.kernels] == ["kernel_2_kernel"]
    assert "get_local_id" in listing(part.unit.kernels)


def test_candidates_of_one_library_embed_their_kernels_together() -> None:
    codes = [code_of(Scheduled(plus_one(count)), TARGET) for count in (64, 128)]
    parts = [data for place, code in enumerate(codes) for data in code.objects(f"main_{place}")]
    assert isinstance(codes[0], DeviceCode)
    objects = codes[0].linkable(parts)
    assert len(objects) == 3 and all(each[:4] == b"\x7fELF" for each in objects)
    assert b"main_0_kernel" in objects[2] and b"main_1_kernel" in objects[2]


def test_the_passes_that_are_left_out_change_nothing() -> None:
    func = plus_one().with_attr("global_symbol", "kernel").with_attr(EXPLICIT, True)
    module = tvm.IRModule({"kernel": func})
    short = lowered(module, TARGET)
    with tvm.transform.PassContext(config={"tirx.disable_cse_tir": True}):  # drivers find such themselves
        host, device = tvm_compat.lower_functions(module, TARGET)
    assert short.device is not None and device is not None
    tvm.ir.assert_structural_equal(short.device, device)
    tvm.ir.assert_structural_equal(short.host, tirx.transform.SkipAssert()(host))


def test_a_kernel_out_of_which_tvm_would_move_a_vector_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mock of TVM's failure: it depends on too much to be made by a small function."""
    lower = tvm_compat.lower_functions

    def failing(module: tvm.IRModule, target: tvm.target.Target) -> tuple[tvm.IRModule, tvm.IRModule | None]:
        if not tvm.transform.PassContext.current().config.get("tirx.disable_cse_tir"):
            raise RuntimeError("Cannot pass vector type")
        return lower(module, target)

    monkeypatch.setattr(tvm_compat, "lower_functions", failing)
    module = tvm.IRModule({"main": plus_one().with_attr("global_symbol", "main")})
    assert lowered(module, TARGET).device is not None
    with pytest.raises(RuntimeError, match="vector"):
        lowered(module, target_for(host_profile()).target)

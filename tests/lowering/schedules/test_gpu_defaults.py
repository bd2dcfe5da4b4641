"""Schedules without a record, on devices: every function gets to work items, under its own name."""

from __future__ import annotations

import pytest
import tvm_ffi

from tests.lowering.scheduled import KINDS, Layer
from toolchain.lowering.kernels.listing import list_code
from toolchain.lowering.schedules.gpu_defaults import device_schedule
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target

pytestmark = pytest.mark.slow
TARGET = device_target(load_profile("rk3399"), "opencl").target


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_operator_becomes_kernels(kind: str) -> None:
    func = Layer(kind).function()
    before = func.script()
    source = list_code(device_schedule(func, TARGET), TARGET, "opencl")
    assert "__kernel void" in source and "get_local_id(0)" in source
    assert func.script() == before


def test_names_and_attributes_stay() -> None:
    func = Layer("matmul").function().with_attr("op_pattern", 4)
    named = device_schedule(func.with_attr("global_symbol", "fused"), TARGET)
    assert named.attrs["global_symbol"] == "fused" and int(named.attrs["op_pattern"]) == 4
    unnamed = device_schedule(func.without_attr("global_symbol"), TARGET)
    assert "global_symbol" not in unnamed.attrs and "tirx.is_scheduled" not in unnamed.attrs


def test_what_is_scheduled_stays_as_it_is() -> None:
    func = Layer("matmul").function().with_attr("tirx.is_scheduled", True)
    assert tvm_ffi.structural_equal(device_schedule(func, TARGET), func)

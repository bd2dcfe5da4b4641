"""What TVM is kept from."""

from __future__ import annotations

import importlib
import sys

from toolchain import tvm_compat

INTRINSICS = "tvm.s_tir.tensor_intrin"


def test_tensor_intrinsics_are_left_out_for_a_block_and_no_longer() -> None:
    before = sys.modules.get(INTRINSICS)
    with tvm_compat.without_tensor_intrinsics():
        assert importlib.import_module(INTRINSICS) is (before or sys.modules[INTRINSICS])
        assert before or not hasattr(sys.modules[INTRINSICS], "__path__"), "an empty module, no package"
    assert sys.modules.get(INTRINSICS) is before

"""A function on its way to another process: made and compiled there, or refused with TVM's reason."""

from __future__ import annotations

import pickle

import pytest
import tvm
from tvm import te

from toolchain.errors import ToolchainError
from toolchain.lowering.kernels.code import FunctionCode, code_of
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

TARGET = target_for(load_profile("x86_64")).target


def doubled() -> tvm.tirx.PrimFunc:
    x = te.placeholder((4,), name="x")
    return te.create_prim_func([x, te.compute((4,), lambda i: x[i] + x[i], name="y")])


def test_any_process_compiles_code_to_the_same_bytes() -> None:
    code = code_of(Scheduled(doubled()), TARGET)
    sent = pickle.loads(pickle.dumps(code))
    assert sent == code
    (made,) = code.objects("main_3")
    assert made[:4] == b"\x7fELF"
    assert b"__tvm_ffi_main_3\0" in made
    assert sent.objects("main_3") == (made,)


def test_the_given_function_is_left_alone() -> None:
    func = doubled()
    before = func.script()
    code_of(Scheduled(func), TARGET)
    assert func.script() == before


RECIPE = code_of(Scheduled(doubled()), TARGET).recipe


@pytest.mark.parametrize(
    "broken",
    [
        FunctionCode(b"{", str(TARGET)),
        FunctionCode(b"", str(TARGET)),
        FunctionCode(RECIPE, "toaster"),
        FunctionCode(RECIPE, ""),
    ],
    ids=["half a recipe", "no recipe", "no target of TVM's", "no target"],
)
def test_what_cannot_be_compiled_is_told_in_one_line(broken: FunctionCode) -> None:
    with pytest.raises(ToolchainError, match=r"^TVM cannot compile a candidate: \S") as caught:
        broken.objects("main")
    assert "\n" not in caught.value.message

"""A scheduled function on its way to another process: compiled there, or refused with TVM's reason."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import tvm
from tvm import te

from toolchain.errors import ToolchainError
from toolchain.lowering.code import FunctionCode, code_of
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

TARGET = target_for(load_profile("x86_64")).target


def doubled() -> tvm.tirx.PrimFunc:
    x = te.placeholder((4,), name="x")
    return te.create_prim_func([x, te.compute((4,), lambda i: x[i] + x[i], name="y")])


def test_code_is_text_that_any_process_compiles_to_the_same_bytes(tmp_path: Path) -> None:
    code = code_of(doubled(), TARGET)
    sent = pickle.loads(pickle.dumps(code))
    assert sent == code
    made = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        files = sent.write_objects(folder)
        assert files and all(file.parent == folder for file in files)
        assert all(file.read_bytes()[:4] == b"\x7fELF" for file in files)
        assert set(folder.iterdir()) == set(files), "nothing else is left in it"
        made.append([file.read_bytes() for file in files])
    assert made[0] == made[1]


def test_the_given_function_is_left_alone() -> None:
    func = doubled()
    before = func.script()
    code_of(func, TARGET)
    assert func.script() == before


@pytest.mark.parametrize(
    "broken",
    [
        FunctionCode("{", str(TARGET)),
        FunctionCode("", str(TARGET)),
        FunctionCode(code_of(doubled(), TARGET).module, "toaster"),
        FunctionCode(code_of(doubled(), TARGET).module, ""),
    ],
    ids=["half a module", "no module", "no target of TVM's", "no target"],
)
def test_what_cannot_be_compiled_is_one_line_and_leaves_nothing(tmp_path: Path, broken: FunctionCode) -> None:
    with pytest.raises(ToolchainError, match=r"^TVM cannot compile a candidate: \S") as caught:
        broken.write_objects(tmp_path)
    assert "\n" not in caught.value.message and list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="cannot compile"):
        code_of(doubled(), TARGET).write_objects(tmp_path / "gone")

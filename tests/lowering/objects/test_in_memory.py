"""Objects are written to memory, and reach the disk whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm

from toolchain.lowering.objects.export import files_in_memory, object_of
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("board", "machine"), [("rk3399", b"\xb7\0"), ("pynq", b"\x28\0"), ("x86_64", b"\x3e\0")]
)
def test_a_modules_object_is_an_elf_file_for_its_machine(board: str, machine: bytes) -> None:
    target = target_for(load_profile(board)).target
    module = tvm.get_global_func("target.build.llvm")(tvm.IRModule({}), target)
    before = handles()
    found = object_of(module)
    assert found[:4] == b"\x7fELF" and found[18:20] == machine
    assert object_of(module) == found and handles() == before


def test_what_was_written_is_a_plain_file_afterwards_and_the_rest_is_none(tmp_path: Path) -> None:
    before = handles()
    with files_in_memory(tmp_path, ["lib0.o", "devc.o"]):
        (tmp_path / "lib0.o").write_bytes(b"object")
        assert (tmp_path / "lib0.o").is_symlink(), "not yet on the disk"
    assert (tmp_path / "lib0.o").read_bytes() == b"object"
    assert [file.name for file in tmp_path.iterdir()] == ["lib0.o"]
    assert not (tmp_path / "lib0.o").is_symlink() and handles() == before


def test_an_error_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    before = handles()
    with pytest.raises(ZeroDivisionError), files_in_memory(tmp_path, ["lib0.o", "devc.o"]):
        (tmp_path / "lib0.o").write_bytes(b"half an obj")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == [] and handles() == before


def test_a_name_that_is_taken_is_told_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "devc.o").write_bytes(b"older")
    before = handles()
    with pytest.raises(FileExistsError), files_in_memory(tmp_path, ["lib0.o", "devc.o"]):
        pass
    assert (tmp_path / "devc.o").read_bytes() == b"older"
    assert [file.name for file in tmp_path.iterdir()] == ["devc.o"] and handles() == before

"""Symbols of objects, read without a library for ELF files."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm
from elftools.elf.elffile import ELFFile

from toolchain.errors import ToolchainError
from toolchain.linking.symbols import object_symbols, split_symbols
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for


@pytest.fixture(params=["x86_64", "rk3399", "pynq"])
def compiled(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return an object for a board: what TVM brings along, and a function."""
    target = target_for(load_profile(request.param)).target
    func = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(tvm.tirx.call_extern("int32", "wanted")))
    module = tvm.compile(func.with_attr("global_symbol", "offered"), target=target)
    module.mod.write_to_file(str(tmp_path / "made.o"))
    return tmp_path / "made.o"


def test_symbols_match_pyelftools(compiled: Path) -> None:
    symbols = object_symbols([compiled])
    assert "wanted" in symbols.undefined
    assert "__tvm_ffi_offered" in symbols.defined
    with compiled.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert table is not None
        assert symbols == split_symbols(table.iter_symbols())


def test_refuses_truncated_objects(compiled: Path) -> None:
    data = compiled.read_bytes()
    compiled.write_bytes(data[: len(data) // 2])
    with pytest.raises(ToolchainError, match="is not an ELF object"):
        object_symbols([compiled])

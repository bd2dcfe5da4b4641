"""A network's own names, each of which goes on to the object that computes it."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from toolchain.lowering.kernels.kernels import PREFIX, entry_library
from toolchain.lowering.objects.export import object_of
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

SYMBOLS = {"fused_conv2d": "kernel_1", "fused_conv2d1": "kernel_1", "softmax": "kernel_2"}


def target(board: str) -> object:
    return target_for(load_profile(board)).target


def symbols(data: bytes) -> dict[str, tuple[str, str]]:
    """Return TVM's symbols with where they are defined and who sees them."""
    table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    return {
        each.name.removeprefix(PREFIX): (str(each["st_shndx"]), each["st_other"]["visibility"])
        for each in table.iter_symbols()
        if each.name.startswith(PREFIX)
    }


@pytest.mark.parametrize("board", ["rk3399", "pynq", "x86_64"])
def test_names_are_offered_and_objects_are_asked_for_in_secret(board: str, tmp_path: Path) -> None:
    found = symbols(object_of(entry_library(SYMBOLS, target(board), tmp_path)))
    assert set(found) == {*SYMBOLS, "kernel_1", "kernel_2"}
    for name in SYMBOLS:
        where, visible = found[name]
        assert where != "SHN_UNDEF" and visible == "STV_DEFAULT"
    for name in set(SYMBOLS.values()):
        assert found[name] == ("SHN_UNDEF", "STV_HIDDEN")
    assert list(tmp_path.iterdir()) == []


def test_the_same_names_give_the_same_bytes_whatever_the_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    made = [
        object_of(entry_library(SYMBOLS, target("rk3399"), folder))
        for folder in (tmp_path, tmp_path / "other")
    ]
    assert made[0] == made[1]


def test_a_network_without_functions_has_no_entries(tmp_path: Path) -> None:
    assert symbols(object_of(entry_library({}, target("x86_64"), tmp_path))) == {}


@pytest.mark.parametrize("board", ["rk3399", "pynq"])
def test_they_are_code_for_the_core_that_the_rest_is_for(board: str, tmp_path: Path) -> None:
    made = target(board)
    text = entry_library(SYMBOLS, made, tmp_path).inspect_source("ll")
    core = f'"target-cpu"="{made.attrs["mcpu"]}"'  # type: ignore[attr-defined]
    (group,) = set(re.findall(r'^define .*@"?__tvm_ffi_.* (#\d+) \{$', text, re.MULTILINE))
    (attributes,) = re.findall(rf"^attributes {group} = (.*)$", text, re.MULTILINE)
    assert core in attributes and "nounwind" in attributes

"""Objects without conversions of float16 and debug information: the same code."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from tvm import te

from tests.lowering.kernels.test_pickling import computed
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.network.recipe import Computed
from toolchain.backends.packed.recognise.read import read
from toolchain.lowering.kernels.compile import Compiled, compiled, lean
from toolchain.lowering.objects.export import object_of
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

CONVERSIONS = {"__truncsfhf2", "__extendhfsf2"}


def of_half(board: str) -> Computed:
    """Return a product of float16 and float32."""
    x = te.placeholder((64,), "float16", name="x")
    y = te.compute((64,), lambda i: x[i].astype("float32") * 3.0)
    z = te.compute((64,), lambda i: y[i].astype("float16"))
    return Computed(
        read(te.create_prim_func([x, z])), (None, None), machine_of(target_for(load_profile(board)))
    )


def compiled_for(board: str, recipe: Computed, folder: Path) -> Compiled:
    return compiled(recipe.function(), target_for(load_profile(board)).target, "kernel", folder)


def sections(data: bytes) -> dict[str, bytes]:
    """Return the code and constants of an object; addresses in them are filled in by the linker."""
    found = ELFFile(io.BytesIO(data)).iter_sections()
    return {each.name: each.data() for each in found if each.name.startswith((".text", ".rodata"))}


def symbols(data: bytes) -> set[str]:
    return {each.name for each in ELFFile(io.BytesIO(data)).get_section_by_name(".symtab").iter_symbols()}


@pytest.mark.slow
@pytest.mark.parametrize("board", ["x86_64", "rk3399", "pynq"])
def test_the_code_is_the_same_and_the_rest_is_gone(board: str, tmp_path: Path) -> None:
    module = compiled_for(board, computed(), tmp_path).host
    whole, made = object_of(module), object_of(lean(module, tmp_path))
    code = {name: data for name, data in sections(whole).items() if "fp16" not in name}
    assert code == sections(made) and sum(map(len, code.values())) > 100
    assert symbols(whole) >= CONVERSIONS
    assert not symbols(made) & CONVERSIONS
    names = [each.name for each in ELFFile(io.BytesIO(made)).iter_sections()]
    assert not [name for name in names if "debug" in name]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("board", ["x86_64", "rk3399", "pynq"])
def test_conversions_stay_where_there_is_float16(board: str, tmp_path: Path) -> None:
    module = compiled_for(board, of_half(board), tmp_path).host
    whole, made = object_of(module), object_of(lean(module, tmp_path))
    assert symbols(made) >= CONVERSIONS
    assert sections(made) == sections(whole)


def test_an_object_is_made_of_the_lean_module(tmp_path: Path) -> None:
    part = compiled_for("x86_64", computed(), tmp_path).part(tmp_path)
    assert isinstance(part.object, bytes) and not symbols(part.object) & CONVERSIONS

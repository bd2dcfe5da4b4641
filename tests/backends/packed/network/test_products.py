"""What functions multiply by: the machine's instruction for their factors, by the name that is measured."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from tvm import tirx

from tests.backends.packed.integers import LAYERS, Quantised, fused
from toolchain.architectures.table import ARCHITECTURES
from toolchain.backends.packed import machines
from toolchain.backends.packed.dot_products import SDOT, VNNI, VNNI_AVX, Products
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.backends.packed.pairs import SMULL
from toolchain.lowering.kernels.recipe import Recipe
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

ROOT = Path(__file__).parents[4]
LAYER = replace(LAYERS[3], least=SMULL.least)
DEPTHWISE = replace(LAYERS[6], least=SMULL.least)


def empty(recipe: Recipe) -> tirx.PrimFunc:
    """Return a function in place of a generated one, which takes longer."""
    return tirx.PrimFunc([tirx.Var("_", "handle") for _ in range(recipe.arity)], tirx.Evaluate(0))


def products(module: tvm.IRModule, machine: Machine) -> dict[str, str]:
    """Return what the functions of a network multiply by, by the kind of function."""
    found = rewrite(module, Choices(machine), empty).products
    return {"conv" if "conv" in name else "other": each for name, each in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("layer", [LAYER, DEPTHWISE], ids=["dense", "depthwise"])
@pytest.mark.parametrize(
    ("machine", "board", "has", "named"),
    [
        (machines.AVX512, "x86_64", ("dot",), "avx512_vnni"),
        (machines.AVX2, "x86_64", ("dot-avx",), "avx_vnni"),
        (machines.AARCH64, "rk3399", ("dot",), "asimddp"),
        (machines.AARCH64, "rk3399", (), "smull"),
        (machines.ARMV7, "pynq", (), "vmull"),
    ],
)
def test_a_layer_of_bytes_is_named_by_its_instruction(
    layer: Quantised, machine: Machine, board: str, has: tuple[str, ...], named: str
) -> None:
    machine = machine.having(has).of(1)
    signed = "int8" in machine.integers
    module = fused(layer, signed, target_for(load_profile(board)).target, machine.least)
    assert products(module, machine)["conv"] == named


def test_without_dot_products_x86_multiplies_pairs() -> None:
    machine = machines.AVX512.having(("dot-avx",)).of(1)
    module = fused(LAYER, False, target_for(load_profile("x86_64")).target)
    assert products(module, machine) == {"conv": "pmaddwd", "other": "float32"}


def test_a_layer_in_floats_multiplies_floats() -> None:
    machine, target = machines.AARCH64.of(1).without_integers(), target_for(load_profile("rk3399")).target
    too_small = fused(replace(LAYER, least=-128), True, target, SMULL.least)
    assert set(products(too_small, machine).values()) == {"float32"}


def test_bytes_that_no_instruction_multiplies_are_not_taken_for_floats() -> None:
    machine, target = machines.AARCH64.having(()).of(1), target_for(load_profile("rk3399")).target
    anywhere = fused(replace(LAYER, least=-128), True, target)
    assert products(anywhere, machine)["conv"] == "int8"


@pytest.mark.parametrize("row", [VNNI, VNNI_AVX, SDOT], ids=lambda row: row.name)
def test_rows_have_the_names_of_their_features_and_probes(row: Products) -> None:
    features = {
        each.features[each.products[row.needs]]
        for each in ARCHITECTURES.values()
        if row.needs in each.products
    }
    assert row.name in features
    folders = ROOT / "toolchain" / "native" / "src" / "arch"
    probes = "".join(file.read_text() for file in folders.glob("*/rates.cc"))
    assert re.search(rf'{{"{row.name}", "int8",', probes), "edge-rt measures it by this name"

"""Multiply-accumulate by lane: formed on every 32-bit Arm core and no other, in the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm

from benchmarks.arm.loops import HotLoop, hot_loops
from tests.backends.packed import arm_kernels
from tests.backends.packed.arm_kernels import compiled
from tests.lowering.executable import executable, source
from tests.lowering.scheduled import Layer
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.objects import export
from toolchain.lowering.objects.export import form_multiply_accumulate
from toolchain.models.load import Model
from toolchain.profiles import Profile, load_profile
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow

TILE = DirectChoice(blocks=2, columns=4)
PRODUCTS = 3 * 4 * 2 * 4  # taps of a row x channels of a block x the tile


def hottest(found: Path) -> HotLoop:
    return max(hot_loops(found), key=lambda loop: loop.products)


def test_a_tile_stays_in_registers_and_each_product_is_added_at_once(tmp_path: Path) -> None:
    loop = hottest(compiled("pynq", TILE, 8, tmp_path))
    assert loop.multiply_accumulates == loop.products == PRODUCTS
    assert (loop.vector_spills, loop.calls) == (0, 0)


def test_without_the_edit_llvm_forms_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # When this fails, LLVM has learnt it, and the module can go.
    monkeypatch.setattr(export, "form_multiply_accumulate", lambda executable, _folder: executable)
    loop = hottest(compiled("pynq", TILE, 8, tmp_path))
    assert (loop.multiply_accumulates, loop.products) == (0, PRODUCTS)
    assert loop.vector_spills > 0


def test_the_bytes_do_not_tell_the_folder_and_nothing_else_is_left_in_it(tmp_path: Path) -> None:
    found = []
    for name in ("here", "somewhere-else"):
        (tmp_path / name).mkdir()
        found.append(compiled("pynq", TILE, 8, tmp_path / name))
        assert list((tmp_path / name).iterdir()) == [found[-1]]
    assert found[0].read_bytes() == found[1].read_bytes()


def test_a_network_keeps_all_but_that_code(model: Model, tmp_path: Path) -> None:
    target = target_for(load_profile("pynq")).target
    network = executable(fuse(model.module, target), target)
    before = [module.kind for module in network.mod.imports]
    assert form_multiply_accumulate(network, tmp_path) is network
    assert [module.kind for module in network.mod.imports] == before
    assert "minsize" in source(fuse(model.module, target), target, "ll")


# Cores that run 32-bit code: in order or not, with VFPv3, VFPv4 or ARMv8's floats.
CORES = ("a5", "a7", "a8", "a9", "a15", "a17", "a32", "a35", "a53", "a57", "a72")


@pytest.mark.parametrize("core", CORES)
def test_every_core_multiplies_by_lane(core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pynq = load_profile("pynq").model_dump()
    clusters = [{"cpu": f"cortex-{core}", "cores": 2}]
    profile = Profile(**{**pynq, "clusters": clusters, "features": ("+neon",)})
    monkeypatch.setattr(arm_kernels, "load_profile", lambda _board: profile)
    loop = hottest(compiled("of one core", TILE, 8, tmp_path))
    assert loop.multiply_accumulates == loop.products == PRODUCTS
    assert loop.by_lane
    assert (loop.vector_spills, loop.calls) == (0, 0)
    assert len(loop.body) <= 1.6 * loop.products


def test_cores_of_64_bits_are_left_alone(tmp_path: Path) -> None:
    func = Layer("conv").function().with_attr("global_symbol", "main")
    executable = tvm.compile(tvm.IRModule({"main": func}), target=target_for(load_profile("rk3399")).target)
    assert form_multiply_accumulate(executable, tmp_path) is executable

"""Multiply-accumulate on the Cortex-A9: formed, in the same bytes each time, and on no other core."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm

from benchmarks.arm.loops import HotLoop, hot_loops
from tests.backends.packed.arm_kernels import compiled
from tests.lowering.executable import executable, source
from tests.lowering.scheduled import Layer
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.objects import export
from toolchain.lowering.objects.armv7 import form_multiply_accumulate
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


@pytest.mark.parametrize(
    "cpu, features, edited",
    [
        ("cortex-a9", ("+neon",), True),
        ("cortex-a9", (), True),
        ("cortex-a7", ("+neon",), False),
        ("cortex-a15", ("+neon",), False),
    ],
)
def test_cores_with_fused_multiply_add_are_left_alone(
    cpu: str, features: tuple[str, ...], edited: bool, tmp_path: Path
) -> None:
    pynq = load_profile("pynq").model_dump()
    profile = Profile(**{**pynq, "clusters": [{"cpu": cpu, "cores": 2}], "features": features})
    func = Layer("conv").function().with_attr("global_symbol", "main")
    executable = tvm.compile(tvm.IRModule({"main": func}), target=target_for(profile).target)
    result = form_multiply_accumulate(executable, tmp_path)
    assert (result is not executable) == edited
    assert ("minsize" in result.mod.inspect_source("ll")) == edited

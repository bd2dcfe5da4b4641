"""Networks in float16: on this host where its CPU computes in it, on ARMv8.2 under qemu."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.manifest import Manifest
from toolchain.bundles.read import read_bundle
from toolchain.errors import UsageError
from toolchain.host import host_cpu_flags
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.inspect import count_parameters
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow


def verified(shape: tuple[int, ...], board: Board, folder: Path) -> Manifest:
    """Build ResNet-18 for a board, verify it there, and return what the bundle says of itself.

    Its weights are inside, half as large, but for those that a small image does not reach.
    """
    model = load_model("zoo:resnet-18", ModelOptions(shapes={"data": shape}))
    options = BuildOptions(code=CodeOptions(dtype="float16"))
    bundle = read_bundle(build(model, find_target(board.name), None, folder, options).bundle)
    assert len(bundle.library) < 2.2 * count_parameters(model.onnx)
    found = verify_bundle(bundle, OnBoard(board))
    found.check()
    assert found.to_json()["tolerance"] == 2e-2
    # Weights alone, rounded, change it by 1.6e-3; half of what is allowed is the margin.
    assert all(output["max_rel_error"] < 1e-2 for output in found.to_json()["outputs"])
    return bundle.manifest


def test_this_host_computes_in_float16_or_says_that_it_cannot(state: Path, tmp_path: Path) -> None:
    assert state
    if host_cpu_flags() & {"avx512_fp16", "asimdhp"}:
        manifest = verified((1, 3, 64, 64), find_board("local"), tmp_path)
        assert manifest.dtype == "float16"
        assert {"avx512_fp16", "asimdhp"} & set(manifest.requires)
    else:
        with pytest.raises(UsageError, match=r"--dtype float16: .* does not compute in float16"):
            verified((1, 3, 64, 64), find_board("local"), tmp_path)


@pytest.fixture
def raspberrypi5(state: Path) -> Iterator[Board]:
    assert state
    yield emulated.start("raspberrypi5", kind="process", name="half")
    emulated.stop("half")


def test_armv8_2_computes_in_float16(raspberrypi5: Board, tmp_path: Path) -> None:
    manifest = verified((1, 3, 32, 32), raspberrypi5, tmp_path)
    assert manifest.cluster == "cortex-a76"
    assert "asimdhp" in manifest.requires

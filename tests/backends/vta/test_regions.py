"""What of a network goes to a VTA, and what between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.vta.quantised import RESIDUAL, loaded
from tests.models.quantising.networks import Block
from toolchain.backends.vta.offload import Offload
from toolchain.errors import UsageError


def test_residual_blocks_are_one_region(tmp_path: Path) -> None:
    (region,) = Offload(loaded(tmp_path).module).regions
    assert len(region.layers) == 5 and sum(each.residual is not None for each in region.layers) == 2
    assert len(region.inputs) == 1, "the projection and the first convolution read the same integers"
    assert len(region.outputs) == 1, "what stays inside is not handed out"
    assert [str(each.layer.shape) for each in region.layers[:2]] == [
        "1,9,9,5,20,3,3,1,1,2,2",
        "1,9,9,5,20,1,1,0,0,2,2",
    ]


def test_what_the_cpu_computes_between_ends_a_region(tmp_path: Path) -> None:
    blocks = (Block(8, pool=True), Block(8, shortcut="identity"))
    first, second = Offload(loaded(tmp_path, blocks).module, start="relu").regions
    assert len(first.layers) == len(second.layers) == 2
    assert set(second.inputs).isdisjoint(first.outputs), "the pool is between"


def test_regions_begin_behind_a_first_pool(tmp_path: Path) -> None:
    blocks = (Block(8, pool=True), Block(8, shortcut="identity"))
    offload = Offload(loaded(tmp_path, blocks).module)
    assert [len(region.layers) for region in offload.regions] == [2]
    assert set(offload.left.values()) == {"before max_pool2d"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": "gelu"}, "--start-pack gelu: the network has no such operator"),
        ({"stop": "gelu"}, "--stop-pack gelu: the network has no such operator"),
        ({"start": "mean"}, "nothing of the network can go to a VTA: before mean"),
        ({"stop": "relu"}, "nothing of the network can go to a VTA: behind relu"),
    ],
)
def test_what_cannot_be_cut_so(tmp_path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Offload(loaded(tmp_path).module, **options)


def test_nothing_of_floats_goes_to_a_vta(tmp_path: Path) -> None:
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions

    loaded(tmp_path)
    plain = load_model(str(tmp_path / "net.onnx"), ModelOptions())
    with pytest.raises(UsageError, match="no integers") as caught:
        Offload(plain.module)
    assert "--dtype int8" in caught.value.hint


def test_a_layer_that_a_vta_cannot_compute_stays(tmp_path: Path) -> None:
    """Two images at once: programs are for one."""
    with pytest.raises(UsageError, match="batch 2; programs compute one image"):
        Offload(loaded(tmp_path, RESIDUAL, batch=2).module)


def test_ends_of_results_are_those_of_the_activation(tmp_path: Path) -> None:
    blocks = (Block(7, kernel=1, activation=""), Block(3, kernel=5, activation="Clip"))
    (region,) = Offload(loaded(tmp_path, blocks).module).regions
    assert [each.layer.low for each in region.layers] == [-127, -127, 0, 0]

"""docs/tutorials/vta.md with a small network for ResNet-18: what it says wherever it is walked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from tests.models.quantising.networks import Block, network

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "vta.md"
NETWORK = "zoo:resnet-18"


def small_network(folder: Path) -> Path:
    """Write what stands for the page's network: three convolutions go to the VTA."""
    file = folder / "resnet-18.onnx"  # bundles are named after it
    onnx.save(network((Block(20, stride=2, shortcut="projection"), Block(20, shortcut="identity"))), file)
    return file


def check_what_was_said(said: Mapping[str, Sequence[str]]) -> None:
    """Check what the page's commands said, by verb and in order."""
    config, convolutions, made, simulated = said["vta"]
    assert "bitstream 1x16_i8w8a32_15_15_18_17" in config and "CONVOLUTION" in convolutions
    assert "cut by tile_b=" in made and "the memory equals expected.bin" in simulated
    assert "pynq+emulated" in said["lab"][1], "the boards' servers are there"
    assert "by vta-model, for pynq: about " in said["tune"][0]
    assert all("from a model: nothing was measured" in tuned for tuned in said["tune"][1:])
    untuned, tuned, _, here, cpu = said["build"]
    assert "records: none" in untuned and "code: 3 vta" in untuned
    assert "records: 3 exact, modelled; 0 tasks without one" in tuned, "the history is taken"
    assert "vta:sim" in here and " vta" not in cpu
    assert len(said["verify"]) == 3 and all("passed: true" in each for each in said["verify"])
    assert all("cycle model 1: " in each for each in said["bench"])

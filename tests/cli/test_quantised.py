"""What people are told of a network in integers."""

from __future__ import annotations

import onnx
import pytest

from tests.models.quantising.networks import Block, network
from toolchain.cli.output import show_quantised
from toolchain.models.quantising import affine_quantiser as affine
from toolchain.models.quantising.shift_quantiser import quantise


def test_values_that_were_clipped_are_a_warning_with_the_layer(capsys: pytest.CaptureFixture[str]) -> None:
    loud = network((Block(8, scale=1.0), Block(8, scale=40.0)))
    show_quantised(quantise(loud, "global-scale", {}, "net"))
    said = capsys.readouterr()
    assert "warning: b1.conv2: " in said.err and "% of its values are beyond 8 bits" in said.err
    assert "--calibrate NAME=FILE.npy" in said.err
    assert "integers: 4 convolutions" in said.out
    assert "in floats: fc: a product of matrices" in said.out


def test_the_kinds_of_layers_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.shape_inference.infer_shapes(network((Block(8, shortcut="identity"),)))
    show_quantised(affine.quantise(model, "minmax", {}, "net"))
    said = capsys.readouterr()
    scales, integers = said.out.splitlines()
    assert scales == "scales: minmax, calibrated with 4 random inputs"
    assert integers.startswith(
        "integers: 3 convolutions, 1 dense layer, 1 addition, 1 average pool; output SQNR"
    )
    assert "the scales will not fit real data" in said.err and "--calibrate NAME=FILE.npy" in said.err

"""`toolchain demo --dtype int8`, the whole way on this host."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.cli.running import Toolchain
from tests.models.quantising.affine.networks import mobile

OPTIONS = ("--dtype", "int8", "--board", "local", "--trials", "2", "-o", "out", "--json")

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("state")
def test_a_demo_in_integers_verifies_and_says_what_it_lost(invoke: Toolchain, folder: Path) -> None:
    onnx.save(mobile(), folder / "net.onnx")
    ran = invoke("demo", "net.onnx", *OPTIONS)
    assert ran.code == 0, ran.err
    assert "wrong result" not in ran.err, "candidates are compared with the part that they compute"
    said = ran.document
    assert said["verify"]["passed"] and said["quantising"]["quantizer"] == "mse"
    assert said["quantising"]["integers"]["convolution"] == 9 and said["quantising"]["random"]

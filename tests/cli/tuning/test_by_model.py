"""Tuning for a Mali without one: a model of it measures, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.measuring.small_network import network
from tests.testbeds.mali.fixed_model import FixedModel
from toolchain.testbeds.mali import model as mali

HERE = ("small.onnx", "--board", "rk3399", "--device", "opencl")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_build_takes_what_the_model_chose_and_says_so(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network(folder / "small.onnx")
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))  # other tests have records, too
    monkeypatch.setattr(mali, "MaliModel", FixedModel)
    tuned = invoke("tune", *HERE, "--runner", "mali-model", "--trials", "3")
    assert tuned.code == 0, tuned.err
    assert "these times come from a model: nothing was measured" in tuned.out
    rows = invoke("records", "list", "--json").document
    assert rows and all(row["modelled"] and row["board"] == "mali-model" for row in rows)
    assert {row["device"] for row in rows} == {"opencl:mali-t860"}
    assert " (model)" in invoke("records", "best").out
    built = invoke("build", *HERE, "-o", "out", "--json").document
    decided = [each for each in built["records"] if each["source"]]
    assert decided and all(each["modelled"] for each in decided)
    assert "exact, modelled" in invoke("build", *HERE, "-o", "out").out


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry run"])
@pytest.mark.usefixtures("state")
def test_other_devices_have_no_such_runner(invoke: Toolchain, folder: Path, dry: tuple[str, ...]) -> None:
    network(folder / "small.onnx")
    ran = invoke("tune", "small.onnx", "--board", "rk3399", "--runner", "mali-model", *dry)
    assert ran.code == 2 and ran.says("--runner mali-model: no runner of this name runs this code", "boards")

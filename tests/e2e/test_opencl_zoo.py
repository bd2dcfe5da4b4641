"""Networks of the zoo on an OpenCL device, computed by PoCL on this host: untuned, then tuned a little."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import Toolchain
from toolchain.bundles.read import read_bundle

pytestmark = [pytest.mark.slow, pytest.mark.full]


@pytest.fixture(autouse=True)
def own_state(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))  # other tests have records, too
    return state


def built_runs(invoke: Toolchain, folder: Path, *typed: str) -> dict[str, int]:
    """Build, run and verify; return how many tasks there are, and how many tuned ones."""
    built = invoke("build", *typed, "-o", "out", "--json")
    assert built.code == 0, built.err
    bundle = built.document["bundle"]
    found = read_bundle(Path(bundle))
    (name, image), (output, expected) = *found.sample.items(), *found.expected.items()
    np.save(folder / "image.npy", image)
    ran = invoke("run", bundle, "--board", "local", "--input", f"{name}=image.npy", "-o", "y.npz")
    assert ran.code == 0, ran.err
    assert np.load(folder / "y.npz")[output].argmax() == expected.argmax()
    verified = invoke("verify", bundle, "--board", "local", "--json")
    assert verified.code == 0 and verified.document["passed"], verified.err
    (judged,) = verified.document["outputs"]
    assert judged["max_abs_error"] <= 1e-4
    tasks: dict[str, int] = built.document["tasks"]
    return tasks


@pytest.mark.parametrize("network", ["mobilenet", "resnet-18", "squeezenet_v1.1"])
def test_they_run_and_verify(invoke: Toolchain, folder: Path, network: str) -> None:
    typed = (f"zoo:{network}", "--board", "local")
    assert built_runs(invoke, folder, *typed, "--device", "opencl")["tuned"] == 0
    tuned = invoke("tune", *typed, "--device", "opencl", "--trials", "8", "--json")
    assert tuned.code == 0 and tuned.document["failed"] == 0, tuned.out + tuned.err
    named = re.search(r"builds use them with --device '?(opencl:[^'\s]+)", tuned.err)
    assert named, tuned.err
    assert built_runs(invoke, folder, *typed, "--device", named[1])["tuned"] > 0

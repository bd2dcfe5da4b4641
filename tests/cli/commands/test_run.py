"""`toolchain run`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.bad_bundles import BUNDLES
from tests.cli.bad_inputs import INPUTS
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.measuring.small_network import INPUT
from toolchain.bundles.read import Bundle


@pytest.mark.slow  # edge-rt may have to be compiled
@pytest.mark.usefixtures("state")
def test_outputs_are_written_by_name(invoke: Toolchain, files: Path, bundles: dict[str, Bundle]) -> None:
    bundle = bundles["local"]
    np.save(files / "sample.npy", bundle.sample[INPUT])
    given = ("--input", f"{INPUT}=sample.npy", "-o", "out.npz", "--threads", 1)
    ran = invoke("run", bundle.path, "--board", "local", *given, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["output"] == str(files / "out.npz")
    with np.load(files / "out.npz") as written:
        assert (
            list(written) == [output["name"] for output in ran.document["outputs"]] == list(bundle.expected)
        )
        for name, expected in bundle.expected.items():
            np.testing.assert_allclose(written[name], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("state")
def test_a_device_of_another_kind_is_told_before_edge_rt_is_compiled(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "toolchain.measuring.place.install", lambda *_, **__: pytest.fail("it asks the board")
    )
    given = ("--board", "local", f"--input={INPUT}=good.npy", "-o", "out.npz", "--device", "cuda:0")
    says = ["--device cuda:0: ", "was built for cpu", "leave --device out"]
    refused(invoke, files, 2, says, "run", bundles["local"].path, *given)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("value", "says"), INPUTS, ids=[row[0] for row in INPUTS])
def test_inputs_that_do_not_fit(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle], value: str, says: list[str]
) -> None:
    bundle = bundles["local"].path
    refused(invoke, files, 2, says, "run", bundle, "--board", "local", "--input", value, "-o", "out.npz")


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("name", "change", "code", "says"), BUNDLES, ids=[row[0] for row in BUNDLES])
def test_bundles_that_are_none(
    invoke: Toolchain,
    files: Path,
    bundles: dict[str, Bundle],
    name: str,
    change: Callable[[bytes], bytes],
    code: int,
    says: list[str],
) -> None:
    bad = files / f"{name}.bundle"
    bad.write_bytes(change(bundles["local"].path.read_bytes()))
    data = [f"--input={INPUT}=good.npy", "-o", "out.npz"]
    refused(invoke, files, code, [bad.name, *says], "run", bad.name, "--board", "local", *data)

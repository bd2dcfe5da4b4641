"""`toolchain run`."""

from __future__ import annotations

import re
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
from toolchain.cli.commands.execute import show_values


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


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_without_a_file_the_values_are_printed(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle]
) -> None:
    bundle = bundles["local"]
    np.save(files / "sample.npy", bundle.sample[INPUT])
    given = ("run", bundle.path, "--board", "local", "--input", f"{INPUT}=sample.npy")
    before = sorted(files.iterdir())
    ran = invoke(*given)
    assert ran.code == 0, ran.err
    order = np.argsort(-bundle.expected["prob"][0])
    line = next(line for line in ran.out.splitlines() if line.startswith("prob: the largest of 10: "))
    assert [int(place) for place in re.findall(r"\[(\d+)\]", line)] == order[:5].tolist()
    document = invoke(*given, "--json").document
    assert document["output"] is None
    values = {output["name"]: output["values"] for output in document["outputs"]}
    np.testing.assert_allclose(values["prob"], bundle.expected["prob"], rtol=1e-3, atol=1e-5)
    assert sorted(files.iterdir()) == before


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_file_is_not_replaced_without_a_word(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle]
) -> None:
    np.save(files / "sample.npy", bundles["local"].sample[INPUT])
    given = (
        "run",
        bundles["local"].path,
        "--board",
        "local",
        "--input",
        f"{INPUT}=sample.npy",
        "-o",
        "o.npz",
    )
    assert "replaced" not in invoke(*given).err
    assert "o.npz was there, and is replaced" in invoke(*given).err


@pytest.mark.usefixtures("state")
def test_without_inputs_all_of_them_are_named_with_the_line_to_type(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle]
) -> None:
    path = bundles["local"].path
    says = [f"without --input for {INPUT} [1, 3, 16, 16] float32", f"--board local --input {INPUT}=FILE.npy"]
    refused(invoke, files, 2, [*says, f"hint: toolchain run {path}"], "run", path, "--board", "local")


def test_arrays_are_shown_as_they_are_read_best(capsys: pytest.CaptureFixture[str]) -> None:
    nan = np.array([[0.1, np.nan, 7, 0.5, 0.25, 0.3]], np.float32)
    show_values({"one": np.float32(3.5).reshape(()), "two": np.eye(2), "many": np.zeros((9, 9)), "nan": nan})
    said = capsys.readouterr().out
    assert said.startswith("one: 3.5\ntwo: [[1., 0.],") and "many:\n[[0., 0., ..., 0., 0.]," in said
    assert said.splitlines()[-1].startswith("nan: the largest of 6: [2] 7, [3] 0.5, ")


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
def test_refuses_inputs_that_do_not_fit(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle], value: str, says: list[str]
) -> None:
    bundle = bundles["local"].path
    refused(invoke, files, 2, says, "run", bundle, "--board", "local", "--input", value, "-o", "out.npz")


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("name", "change", "code", "says"), BUNDLES, ids=[row[0] for row in BUNDLES])
def test_refuses_files_that_are_no_bundles(
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

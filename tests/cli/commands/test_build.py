"""`toolchain build`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.bad_inputs import INPUTS
from tests.cli.bad_models import MODELS
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from toolchain.bundles.read import read_bundle


@pytest.mark.usefixtures("state")
def test_library_and_bundle_are_there_and_the_tasks_counted(invoke: Toolchain, files: Path) -> None:
    ran = invoke("build", "good.onnx", "--board", "rk3399", "-o", "out", "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    assert Path(document["library"]).parent == Path(document["bundle"]).parent == files / "out"
    assert read_bundle(Path(document["bundle"])).manifest.board_class == "rk3399"
    assert document["tasks"]["total"] == 4 and document["tasks"]["tuned"] == 0
    ran = invoke("build", "good.onnx", "--board", "rk3399", "-o", "out", "--require-tuned")
    assert ran.code == 1 and ran.says("toolchain tune")


@pytest.mark.parametrize(("model", "code", "says"), MODELS, ids=[row[0] for row in MODELS])
def test_models_that_cannot_be_used(
    invoke: Toolchain, files: Path, model: str, code: int, says: list[str]
) -> None:
    refused(invoke, files, code, says, "build", model, "--board", "rk3399", "-o", "out")


def test_unsupported_operators_are_all_named(invoke: Toolchain, files: Path) -> None:
    says = ["odd.onnx", "mine.Volume", "volume", "mine.Tidy", "tidy"]
    refused(invoke, files, 2, says, "build", "odd.onnx", "--board", "rk3399", "-o", "out")


NAMES = [
    (["build", "good.onnx", "--board", "rk3388", "-o", "out"], ["--board rk3388", "rk3399"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_names_and_options_that_are_none(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *arguments)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("value", "says"), INPUTS, ids=[row[0] for row in INPUTS])
def test_samples_that_do_not_fit(invoke: Toolchain, files: Path, value: str, says: list[str]) -> None:
    says = [words.replace("--input", "--sample") for words in says]
    refused(invoke, files, 2, says, "build", "good.onnx", "--board", "local", "--sample", value, "-o", "out")

"""The sample in a bundle: the user's, or one that the network can use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.building.small import small
from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import loaded
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.cli.commands.build import show
from toolchain.errors import UsageError
from toolchain.models.judging.reference import reference_outputs
from toolchain.models.load import Model

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_users_sample_is_what_verify_will_run(model: Model, tmp_path: Path) -> None:
    sample = {"data": np.full((1, 3, 12, 12), 0.25, np.float32)}
    bundle = read_bundle(
        build(model, find_target("x86_64"), None, tmp_path, BuildOptions(sample=sample)).bundle
    )
    np.testing.assert_array_equal(bundle.sample["data"], sample["data"])
    for name, expected in reference_outputs(model, sample).items():
        np.testing.assert_array_equal(bundle.expected[name], expected)


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        ({"image": np.zeros((1, 3, 12, 12), np.float32)}, "--sample image: the network has no input"),
        ({}, "the input 'data' is missing"),
        ({"data": np.zeros((3, 12, 12), np.float32)}, r"shape \[3, 12, 12\] where \[1, 3, 12, 12\]"),
        ({"data": np.zeros((1, 3, 12, 12))}, "dtype float64 where float32"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused_before_anything_is_written(
    model: Model, tmp_path: Path, sample: dict[str, np.ndarray], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        build(model, find_target("x86_64"), None, tmp_path / "out", BuildOptions(sample=sample))
    assert not (tmp_path / "out").exists()


def test_a_sample_that_makes_an_output_nan_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    # Of every sort of sample there is: the logarithm of a logarithm is finite from above 1 on.
    ways = [("Floor", "x", "low"), ("Log", "low", "once"), ("Log", "once", "y")]
    nodes = [onnx.helper.make_node(operator, [source], [result]) for operator, source, result in ways]
    model = small(tmp_path, nodes, [tensor_info("y", (1, 8))])
    said: list[str] = []
    with pytest.raises(UsageError, match=r"small\.onnx: with the sample input output 'y' is NaN") as refused:
        build(model, find_target("local"), None, tmp_path / "out", progress=said.append)
    assert "--sample x=FILE.npy" in refused.value.hint
    assert said == ["computing the reference output"] and not (tmp_path / "out").exists()
    options = BuildOptions(sample={"x": np.full((1, 8), 3, np.float32)})
    check = build(model, find_target("local"), None, tmp_path / "out", options)
    assert check.bundle.is_file()


def test_a_bundle_holds_the_first_sample_that_the_network_can_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Token types of two kinds: none is 2 or 3."""
    table = {"table": np.random.default_rng(0).normal(size=(2, 8)).astype("float32")}
    types = tensor_info("types", (1, 32), onnx.TensorProto.INT64)
    nodes = [
        onnx.helper.make_node("Gather", ["table", "types"], ["rows"]),
        onnx.helper.make_node("Exp", ["rows"], ["y"]),
    ]
    model = loaded(graph_of(nodes, [types], [tensor_info("y", (1, 32, 8))], table), tmp_path)
    result = build(model, find_target("local"), None, tmp_path / "out")
    assert set(np.unique(read_bundle(result.bundle).sample["types"])) == {0, 1}
    assert result.to_json()["sample"]["drawn"] == "integers 0 and 1"
    show(result)
    told = capsys.readouterr().out
    assert "sample: seeded, integers 0 and 1; integers 0 to 3 are no use: onnxruntime: indices" in told

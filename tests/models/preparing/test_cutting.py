"""A graph cut where the rest cannot be compiled: refused with the tensors to cut at, and built there."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded, refused
from toolchain.models.inspect import inspect_model
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import export_model, load_model
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.prepare import outputs_option


def detector(*, domain: str = "", boxes: str = "boxes", scores: str = "scores") -> onnx.ModelProto:
    """Return two dense heads on a feature, a mean as a second output, and the suppression behind the heads.

    Its input `size` is read behind the suppression alone.
    """
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(8, 12)).astype(np.float32),
        "v": random.normal(size=(8, 6)).astype(np.float32),
        "box": np.array([1, 3, 4]),
        "class": np.array([1, 2, 3]),
        "most": np.array([5]),
        "overlap": np.array([0.5], np.float32),
        "column": np.array(2),
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["feature"], "relu"),
        helper.make_node("MatMul", ["feature", "w"], ["b"]),
        helper.make_node("Reshape", ["b", "box"], [boxes]),
        helper.make_node("MatMul", ["feature", "v"], ["s"]),
        helper.make_node("Reshape", ["s", "class"], [scores]),
        helper.make_node(
            "NonMaxSuppression", [boxes, scores, "most", "overlap"], ["kept"], "nms", domain=domain
        ),
        helper.make_node("Gather", ["kept", "column"], ["index"], axis=1),
        helper.make_node("Gather", [boxes, "index"], ["found"], axis=1),
        helper.make_node("Mul", ["found", "size"], ["scaled"]),
        helper.make_node("ReduceMean", ["feature"], ["mean"], axes=[1]),
    ]
    graph = graph_of(
        nodes,
        [tensor_info("x", (1, 8)), tensor_info("size", ("n", 4))],
        [tensor_info("scaled", (1, None, 4)), tensor_info("mean", (1, 1))],
        weights,
    )
    if domain:
        graph.opset_import.append(helper.make_opsetid(domain, 1))
    return graph


@pytest.mark.slow
def test_the_hint_is_an_option_that_works(tmp_path: Path) -> None:
    error = refused(detector(), tmp_path, shapes={"size": (1, 4)})
    assert "NonMaxSuppression (node 'nms') makes a tensor whose shape depends on the data" in error.message
    assert str(error.hint).endswith("--outputs boxes,scores,mean")
    option, names = shlex.split(str(error.hint))[-2:]
    model = loaded(detector(), tmp_path, **{option[2:]: (names,)})
    assert [(spec.name, spec.shape) for spec in model.outputs] == [
        ("boxes", (1, 3, 4)),
        ("scores", (1, 2, 3)),
        ("mean", (1, 1)),
    ]
    assert [spec.name for spec in model.inputs] == ["x"], "what only the rest reads is no input"
    assert_same(model)


def test_the_reference_of_a_part_is_that_of_the_whole_file(tmp_path: Path) -> None:
    model = loaded(detector(), tmp_path, outputs=("mean,scores",))
    inputs = sample_inputs(model)
    found = reference_outputs(model, inputs)
    assert list(found) == ["mean", "scores"]
    np.testing.assert_allclose(
        found["mean"], np.maximum(inputs["x"], 0).mean(axis=1, keepdims=True), rtol=1e-6
    )


@pytest.mark.slow
def test_an_operator_of_another_domain_is_cut_off_too(tmp_path: Path) -> None:
    error = refused(detector(domain="com.someone"), tmp_path, shapes={"size": (1, 4)})
    assert "unsupported operators: com.someone.NonMaxSuppression (nms)" in error.message
    assert str(error.hint).endswith("--outputs boxes,scores,mean")
    assert_same(loaded(detector(domain="com.someone"), tmp_path, outputs=("boxes,scores,mean",)))


def test_a_tensor_that_is_not_there_is_refused_with_close_names(tmp_path: Path) -> None:
    error = refused(detector(), tmp_path, outputs=("scores,boxs",))
    assert "--outputs boxs: " in error.message and "has no tensor of this name" in error.message
    assert "boxes" in str(error.hint)
    assert "scaled" in str(refused(detector(), tmp_path, outputs=("zzzz",)).hint)
    assert "is an input" in refused(detector(), tmp_path, outputs=("x",)).message
    assert "no tensor" in refused(detector(), tmp_path, outputs=("w",)).message


def test_a_cut_behind_what_depends_on_data_is_refused(tmp_path: Path) -> None:
    error = refused(detector(), tmp_path, outputs=("found",))
    assert "node 'nms'" in error.message and "--outputs boxes,scores" in str(error.hint)


def test_names_with_commas_and_blanks(tmp_path: Path) -> None:
    graph = detector(boxes="a,b c", scores="d")
    error = refused(graph, tmp_path, shapes={"size": (1, 4)})
    words = shlex.split(str(error.hint))
    given = tuple(word for before, word in pairwise(words) if before == "--outputs")
    assert given == ("a,b c", "d", "mean")
    assert [spec.name for spec in loaded(graph, tmp_path, outputs=given).outputs] == list(given)
    assert outputs_option(["x", "y z"]) == "--outputs 'x,y z'"


def test_inspect_tells_the_same(tmp_path: Path) -> None:
    onnx.save(detector(), tmp_path / "d.onnx")
    found = inspect_model(str(tmp_path / "d.onnx"), ModelOptions(shapes={"size": (1, 4)}))
    assert [(each["op"], each["node"]) for each in found["data_dependent"]] == [("NonMaxSuppression", "nms")]
    assert found["cut"] == ["boxes", "scores", "mean"]
    part = inspect_model(str(tmp_path / "d.onnx"), ModelOptions(outputs=tuple(found["cut"])))
    assert part["data_dependent"] == part["cut"] == []
    assert [value["name"] for value in part["outputs"]] == found["cut"]


def test_an_exported_part_is_a_network_of_its_own(tmp_path: Path) -> None:
    onnx.save(detector(), tmp_path / "d.onnx")
    export_model(str(tmp_path / "d.onnx"), ModelOptions(outputs=("b,mean",)), tmp_path / "part.onnx")
    model = load_model(str(tmp_path / "part.onnx"), ModelOptions())
    assert [spec.name for spec in model.outputs] == ["b", "mean"]
    assert_same(model)

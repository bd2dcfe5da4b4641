"""Inputs that are parameters become constants; what they decide is gone, the reference is the file's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import Dimensions, graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.options import ModelOptions, parse_input_values
from toolchain.models.preparing.prepare import frozen_inputs


def by_rate(shape: Dimensions = ()) -> onnx.ModelProto:
    """Return `x * 2` where the input `rate` is 16000, else `x + 1`; `x` is also sliced by `rate`."""
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["r"])], "then", [], [tensor_info("r", ("n",))]
    )
    other = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["r"])], "else", [], [tensor_info("r", ("n",))]
    )
    nodes = [
        helper.make_node("Equal", ["rate", "wide"], ["is_wide"]),
        helper.make_node("Squeeze", ["is_wide"], ["flag"]),
        helper.make_node("If", ["flag"], ["y"], "choice", then_branch=then, else_branch=other),
    ]
    weights = {"two": np.float32(2), "one": np.float32(1), "wide": np.array(16000)}
    return graph_of(
        nodes,
        [tensor_info("x", (4,)), tensor_info("rate", shape, TensorProto.INT64)],
        [tensor_info("y", (4,))],
        weights,
    )


@pytest.mark.parametrize(("rate", "expected"), [("16000", [2, 4, 6, 8]), ("8000", [2, 3, 4, 5])])
def test_frozen_input_decides_branch(tmp_path: Path, rate: str, expected: list[float]) -> None:
    model = loaded(by_rate(), tmp_path, input_values={"rate": rate})
    assert [spec.name for spec in model.inputs] == ["x"] == list(sample_inputs(model))
    assert [value.name for value in model.onnx.graph.input] == ["x", "rate"]
    x = np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(reference_outputs(model, {"x": x})["y"], expected)
    assert_same(model)


def test_the_branch_that_is_not_taken_may_not_fit_the_shapes(tmp_path: Path) -> None:
    """As in networks for two sample rates: with static inputs onnxruntime would not even load such a file."""
    graph = by_rate()
    graph.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "length"
    other = next(each.g for each in graph.graph.node[2].attribute if each.name == "else_branch")
    other.node[0].CopyFrom(helper.make_node("MatMul", ["x", "square"], ["r"]))
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(7, dtype=np.float32), "square"))
    assert_same(loaded(graph, tmp_path, shapes={"x": (4,)}, input_values={"rate": "16000"}))
    assert_same(loaded(graph, tmp_path, shapes={"x": (7,)}, input_values={"rate": "8000"}))
    with pytest.raises(UsageError, match="the shapes don't fit together"):
        loaded(graph, tmp_path, shapes={"x": (4,)}, input_values={"rate": "8000"})


def test_refusal_names_option_to_freeze(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"If \(node 'choice'\) takes a branch that depends on the data"
    ) as no:
        loaded(by_rate(), tmp_path)
    assert no.value.hint == "if 'rate' never changes, make it a constant: --input-value rate=V"
    found = inspect_model(str(tmp_path / "network.onnx"), ModelOptions())
    assert found["freeze"] == ["rate"] and found["cut"] == []
    assert found["data_dependent"][0]["node"] == "choice"


def test_a_file_freezes_too(tmp_path: Path) -> None:
    np.save(tmp_path / "rate.npy", np.array(16000))
    model = loaded(by_rate(), tmp_path, input_values={"rate": str(tmp_path / "rate.npy")})
    assert_same(model)
    np.save(tmp_path / "rate.npy", np.array([16000.0]))
    with pytest.raises(UsageError, match=r"rate.npy: dtype float64 where int64 is expected"):
        loaded(by_rate(), tmp_path, input_values={"rate": str(tmp_path / "rate.npy")})
    np.save(tmp_path / "rate.npy", np.array([16000, 1]))
    with pytest.raises(UsageError, match=r"rate.npy: shape \[2\] where rate= is expected"):
        loaded(by_rate(), tmp_path, input_values={"rate": str(tmp_path / "rate.npy")})


@pytest.mark.parametrize(
    ("declared", "shapes", "text", "shape"),
    [
        ((), {}, "5", ()),
        ((1,), {}, "5", (1,)),
        (("n",), {}, "5", (1,)),
        (("n",), {}, "5,6,7", (3,)),
        (("n",), {"rate": (4,)}, "5", (4,)),
        ((2, "n"), {}, "1,2,3,4", (2, 2)),
        ((None, None), {}, "5", (1, 1)),
        ((2, 2), {}, "5", (2, 2)),
        (None, {}, "5", ()),
        (None, {}, "5,6", (2,)),
        (None, {"rate": (1, 2)}, "5,6", (1, 2)),
    ],
)
def test_the_shape_of_a_value(
    declared: Dimensions, shapes: dict[str, tuple[int, ...]], text: str, shape: tuple[int, ...]
) -> None:
    options = ModelOptions(shapes=shapes, input_values={"rate": text})
    assert frozen_inputs(by_rate(declared), options, "test")["rate"].shape == shape


@pytest.mark.parametrize(
    ("declared", "values", "message"),
    [
        ((), {"rat": "1"}, "--input-value rat=1: test has no input 'rat' .its inputs are: x, rate"),
        ((), {"rate": "fast"}, "--input-value rate=fast: 'fast' is no int64"),
        ((), {"rate": "0.5"}, "'0.5' is no int64"),
        ((), {"rate": str(2**63)}, "is no int64: these go from"),
        ((), {"rate": "1,"}, "'' is no int64"),
        ((2,), {"rate": "1,2,3"}, "3 numbers for an input of the shape rate=2"),
        (("n", "m"), {"rate": "1,2,3"}, "and its shape: --shape rate=D,D"),
        ((), {"rate": "gone.npy"}, "gone.npy: no such file"),
        ((), {"rate": "gone.npz"}, "gone.npz is no number, and there is no such file"),
        ((), {"rate": "./gone"}, "./gone is no number, and there is no such file"),
        ((), {"rate": __file__}, "is no .npy file"),
        ((), {"rate": "gone.npy", "x": "1"}, "gone.npy: no such file"),
        ((), {"rate": "1", "x": "1"}, "--input-value makes constants of all inputs"),
    ],
)
def test_a_value_that_does_not_fit(declared: Dimensions, values: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        frozen_inputs(by_rate(declared), ModelOptions(input_values=values), "test")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["rate", "=1", "rate=", "rate= "])
def test_a_malformed_value_is_repeated(text: str) -> None:
    with pytest.raises(UsageError, match=f"--input-value {text}: not NAME=V"):
        parse_input_values([text])
    assert parse_input_values(["a=b:0=1,2", "c=x.npy"]) == {"a=b:0": "1,2", "c": "x.npy"}
    with pytest.raises(UsageError, match="'a' was given another value before"):
        parse_input_values(["a=1", "a=2"])


def test_folders_and_names_may_hold_equals_signs(tmp_path: Path) -> None:
    folder = tmp_path / "run=3"
    folder.mkdir()
    np.save(folder / "rate.npy", np.array(7))
    values = parse_input_values([f"rate={folder}/rate.npy"])
    assert frozen_inputs(by_rate(), ModelOptions(input_values=values), "test")["rate"] == 7
    assert folder / "rate.npy" in ModelOptions(input_values=values).value_files, "a container needs it"
    with pytest.raises(UsageError, match="'rate' was given another value before"):
        frozen_inputs(by_rate(), ModelOptions(input_values={"rate": "1", **values}), "test")


def test_booleans_are_written_as_such() -> None:
    graph = by_rate()
    graph.graph.input[1].type.tensor_type.elem_type = TensorProto.BOOL
    for text, truth in (("true", True), ("0", False)):
        assert frozen_inputs(graph, ModelOptions(input_values={"rate": text}), "test")["rate"] == truth

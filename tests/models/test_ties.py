"""Samples hold what random numbers never do, where the answer of an operator depends on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.models.importing.converters import CONVERTERS
from toolchain.models.judging.reference import Reference, seeded_reference
from toolchain.models.rounding import Ties


def network(
    *nodes: onnx.NodeProto, kind: str = "float32", shape: tuple[int, ...] = (16, 12)
) -> onnx.ModelProto:
    """Return a network whose inputs `x` and `z` are of one type, and whose output is y."""
    read = {name for node in nodes for name in node.input}
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    inputs = [tensor_info(name, shape, code) for name in ("x", "z") if name in read]
    return graph_of(list(nodes), inputs, [onnx.ValueInfoProto(name="y")], {"k": np.array([3])})


def node(operator: str, *inputs: str, out: str = "y", **how: Any) -> onnx.NodeProto:
    return helper.make_node(operator, list(inputs), [out], **how)


def reference(graph: onnx.ModelProto, folder: Path) -> Reference:
    return seeded_reference(loaded(graph, folder))


@pytest.mark.parametrize("kind", ["float32", "uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_rows_of_a_place_are_extreme_and_equal(kind: str, operator: str, tmp_path: Path) -> None:
    found = reference(network(node(operator, "x", axis=1), kind=kind), tmp_path)
    x = found.sample["x"]
    least, greatest = (-np.inf, np.inf) if kind == "float32" else (np.iinfo(kind).min, np.iinfo(kind).max)
    for end in (least, greatest, 0):
        assert (x == end).all(1).any(), end
    tied = [(x == end).sum(1) > 1 for end in (x.max(1, keepdims=True), x.min(1, keepdims=True))]
    assert (tied[0] & tied[1] & (x != x[:, :1]).any(1)).any()
    assert len(np.unique(x, axis=0)) >= 8, "the others stay random"
    assert "rows of equal values and rows of extremes" in found.drawn


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "uint8", "int64"])
def test_a_place_of_minus_one_is_caught(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network(node("Transpose", "x", out="t"), node("ArgMax", "t", axis=0), kind=kind)
    right = loaded(graph, tmp_path)
    given = seeded_reference(right).sample
    assert_same(right, inputs=dict(given))
    monkeypatch.delitem(CONVERTERS, "ArgMax")  # TVM's own
    wrong = loaded(graph, tmp_path)
    with pytest.raises(AssertionError):
        assert_same(wrong, inputs=dict(given))


@pytest.mark.parametrize(
    ("operator", "wrong"),
    [
        ("Round", lambda x, _z: np.floor(x + 0.5)),
        ("Sign", lambda x, _z: np.where(x < 0, -1, 1)),
        ("Floor", lambda x, _z: np.ceil(x) - 1),
        ("Ceil", lambda x, _z: np.floor(x) + 1),
        ("Equal", lambda x, _z: np.zeros(x.shape, bool)),
        ("Less", lambda x, z: x <= z),
        ("GreaterOrEqual", lambda x, z: x > z),
    ],
)
def test_a_wrong_answer_to_a_tie_is_caught(operator: str, wrong: Any, tmp_path: Path) -> None:
    """Without ties it passes: of random numbers none are equal, whole or halves."""
    inputs = ("x", "z") if operator in ("Equal", "Less", "GreaterOrEqual") else ("x",)
    found = reference(network(node(operator, *inputs)), tmp_path)
    x, z = found.sample["x"], found.sample.get("z")
    assert (wrong(x, z) != found.outputs["y"]).any()
    assert found.drawn == "normal floats, with halves, zeros and equal operands"


def test_casts_meet_halves(tmp_path: Path) -> None:
    found = reference(network(node("Cast", "x", to=TensorProto.INT32)), tmp_path)
    assert (np.rint(found.sample["x"]).astype("i4") != found.outputs["y"]).any()


def test_extremes_hide_no_other_value(tmp_path: Path) -> None:
    """A row of 3e38 in an output of floats would make all other errors relative to it."""
    twice = network(node("ArgMax", "x", out="p"), node("Gather", "z", "p"))
    both = network(helper.make_node("TopK", ["x", "k"], ["y", "p"], axis=1))
    for graph in (both, network(node("ReduceMax", "x", axes=[1]))):
        found = reference(graph, tmp_path)
        assert np.abs(found.sample["x"]).max() < 10 and "extremes" not in found.drawn
        assert (found.sample["x"] == found.sample["x"][:, :1]).all(1).sum() >= 2, "rows of equal values"
    shown = loaded(twice, tmp_path)
    assert shown.ties == {"x": Ties((0,), False, True)}


def test_places_behind_sums_of_floats_are_left_alone(tmp_path: Path) -> None:
    """Equal values of one program are none of another there, and any place would do."""
    graph = classifier(extra=[node("ArgMax", "prob", axis=1)], extra_outputs=[onnx.ValueInfoProto(name="y")])
    assert loaded(graph, tmp_path).ties == {}


def test_axes_are_those_of_the_input_where_they_are_known(tmp_path: Path) -> None:
    turned = network(node("Transpose", "x", out="t"), node("ArgMax", "t", axis=0))
    assert loaded(turned, tmp_path).ties["x"].axes == (1,)
    shape = helper.make_node("Constant", [], ["s"], value_ints=[4, 4, 12])
    reshaped = network(
        shape, node("Reshape", "x", "s", out="r"), node("Transpose", "r", out="t", perm=[0, 2, 1]),
        node("ArgMax", "t", axis=2),
    )  # fmt: skip
    assert loaded(reshaped, tmp_path).ties["x"].axes == (0,), "any one will do"
    gathered = network(
        node("Gather", "x", "k", out="g", axis=0), node("Unsqueeze", "g", "k0", out="u"),
        node("Transpose", "u", out="t", perm=[2, 1, 0]), node("ArgMax", "t", axis=1),
    )  # fmt: skip
    gathered.graph.initializer.append(numpy_helper.from_array(np.array([0]), "k0"))
    assert set(loaded(gathered, tmp_path).ties) == {"x"}


def test_masks_hide_whole_rows_where_the_network_can_use_that(tmp_path: Path) -> None:
    low = helper.make_node("Constant", [], ["low"], value_float=float("-inf"))
    masked = helper.make_node("Where", ["m", "h", "low"], ["w"])
    nodes = [low, node("Exp", "x", out="h"), masked, node("ArgMax", "w", axis=1)]
    graph = network(*nodes)
    graph.graph.input.append(tensor_info("m", (16, 12), TensorProto.BOOL))
    found = reference(graph, tmp_path)
    assert (~found.sample["m"]).all(1).any() and found.sample["m"].all(1).any()
    softmax = [*nodes[:3], node("Softmax", "w", out="s", axis=1), node("ArgMax", "s", axis=1)]
    graph = network(*softmax)
    graph.graph.input.append(tensor_info("m", (16, 12), TensorProto.BOOL))
    graph.graph.output.append(tensor_info("s", (16, 12)))
    found = reference(graph, tmp_path)
    assert found.sample["m"].any(1).all(), "a softmax over nothing is no number: the random mask stays"


@pytest.mark.slow
def test_sample_with_ties_is_the_same_each_time_and_verifies(tmp_path: Path) -> None:
    largest = helper.make_node("TopK", ["r", "k"], ["y", "p"], axis=1)
    graph = network(node("Round", "x", out="r"), largest)
    graph.graph.output.append(tensor_info("p", (16, 3), TensorProto.INT64))
    model = loaded(graph, tmp_path)
    first, second = seeded_reference(model), seeded_reference(model)
    np.testing.assert_array_equal(first.sample["x"], second.sample["x"])
    machine = relax.VirtualMachine(tvm.compile(model.module, "llvm"), tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(first.sample["x"]))
    found = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    for got, due in zip(found, first.outputs.values(), strict=True):
        np.testing.assert_array_equal(got.numpy(), due)

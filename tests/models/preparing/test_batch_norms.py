"""Folding batch norms changes the graph, never what it computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.models.preparing.norms import fold_batch_norms

SIZE = 6
STATISTICS = ("gamma", "beta", "mean", "var")


@dataclass(frozen=True)
class Case:
    """A convolution and the batch norm behind it."""

    groups: int
    per_group: int
    outputs: int  # per group
    kernel: int
    bias: bool
    epsilon: float | None
    relu: bool
    stride: int
    seed: int
    axes: int = 2

    def model(self) -> onnx.ModelProto:
        """Return conv, norm, perhaps ReLU; the norm or the ReLU is the output."""
        channels = self.groups * self.outputs
        random = np.random.default_rng(self.seed)
        weights = {
            "w": random.normal(size=(channels, self.per_group, *[self.kernel] * self.axes)),
            **statistics(random, channels),
        }
        if self.bias:
            weights["b"] = random.normal(size=channels)
        conv = helper.make_node(
            "Conv",
            ["x", "w", *(["b"] if self.bias else [])],
            ["c"],
            group=self.groups,
            strides=[self.stride] * self.axes,
            pads=[self.kernel // 2] * 2 * self.axes,
        )
        nodes = [conv, norm("c", "n", **({} if self.epsilon is None else {"epsilon": self.epsilon}))]
        if self.relu:
            nodes.append(helper.make_node("Relu", ["n"], ["y"]))
        shape = (2, self.groups * self.per_group, *[SIZE] * self.axes)
        return float32(nodes, {"x": shape}, [nodes[-1].output[0]], weights)


cases = st.builds(
    Case,
    groups=st.integers(1, 4),
    per_group=st.integers(1, 3),
    outputs=st.integers(1, 3),
    kernel=st.sampled_from([1, 3]),
    bias=st.booleans(),
    epsilon=st.sampled_from([None, 1e-5, 1e-3, 0.5]),
    relu=st.booleans(),
    stride=st.integers(1, 2),
    seed=st.integers(0, 99),
    axes=st.integers(1, 3),
)


def statistics(random: np.random.Generator, channels: int) -> dict[str, np.ndarray]:
    """Return gamma, beta, mean and variance; a tiny variance makes epsilon count."""
    arrays = {name: random.normal(size=channels) for name in STATISTICS[:3]}
    return {**arrays, "var": random.uniform(1e-4, 2.0, channels)}


def norm(source: str, target: str, **attributes: float) -> onnx.NodeProto:
    """Return a batch norm with the statistics of the graph."""
    return helper.make_node("BatchNormalization", [source, *STATISTICS], [target], **attributes)


def float32(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: list[str],
    weights: dict[str, np.ndarray],
) -> onnx.ModelProto:
    """Return a model with float32 weights, checked."""
    made = graph_of(
        nodes,
        [tensor_info(name, shape) for name, shape in inputs.items()],
        [tensor_info(name, tuple("NCTHW"[: len(next(iter(inputs.values())))])) for name in outputs],
        {name: array.astype(np.float32) for name, array in weights.items()},
    )
    onnx.checker.check_model(made)
    return made


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def computed(model: onnx.ModelProto, optimise: bool) -> list[np.ndarray]:
    """Return onnxruntime's outputs for seeded inputs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimise:  # it folds batch norms too
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    random = np.random.default_rng(1)
    inputs = {i.name: random.standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}
    return session.run(None, inputs)


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the folded graph after checking that it is valid, agrees, and left `model` alone."""
    before = model.SerializeToString(deterministic=True)
    result = fold_batch_norms(model)
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(result, full_check=True)
    assert [o.name for o in result.graph.output] == [o.name for o in model.graph.output]
    for ours, theirs in zip(computed(result, optimise=False), computed(model, optimise=False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(theirs).max())))
    return result


@pytest.mark.slow
@settings(max_examples=40)
@given(cases)
def test_a_folded_graph_computes_the_same(case: Case) -> None:
    result = folded(case.model())
    assert operators(result) == ["Conv", *(["Relu"] if case.relu else [])]
    read = {name for node in result.graph.node for name in node.input}
    assert {tensor.name for tensor in result.graph.initializer} <= read  # nothing that is read no more


CHANNELS = 4


def shared(seed: int = 0, **extra: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return weights for convolutions `w` of 4 channels with norms behind."""
    random = np.random.default_rng(seed)
    return {
        "w": random.normal(size=(CHANNELS, CHANNELS, 3, 3)),
        **statistics(random, CHANNELS),
        **{name: random.normal(size=shape) for name, shape in extra.items()},
    }


X = {"x": (1, CHANNELS, SIZE, SIZE)}


def conv(source: str, target: str, weight: str = "w") -> onnx.NodeProto:
    return helper.make_node("Conv", [source, weight], [target], pads=[1] * 4)


def test_a_convolution_that_others_read_too_stays() -> None:
    nodes = [conv("x", "c"), norm("c", "n"), helper.make_node("Add", ["c", "n"], ["y"])]
    model = float32(nodes, X, ["y"], shared())
    assert operators(folded(model)) == ["Conv", "BatchNormalization", "Add"]


def test_a_convolution_that_is_an_output_too_stays() -> None:
    model = float32([conv("x", "c"), norm("c", "n")], X, ["n", "c"], shared())
    assert operators(folded(model)) == ["Conv", "BatchNormalization"]


def test_one_convolution_under_two_norms_stays() -> None:
    nodes = [conv("x", "c"), norm("c", "n"), norm("c", "m", epsilon=0.5)]
    assert operators(folded(float32(nodes, X, ["n", "m"], shared()))) == ["Conv", *["BatchNormalization"] * 2]


def test_convolutions_that_share_weights_and_statistics_are_folded_each_by_itself() -> None:
    nodes = [conv("x", "c"), norm("c", "n"), conv("n", "d"), norm("d", "m", epsilon=0.5)]
    assert operators(folded(float32(nodes, X, ["m"], shared()))) == ["Conv", "Conv"]


def test_a_weight_that_another_node_reads_is_kept_as_it_was() -> None:
    nodes = [
        conv("x", "c"),
        norm("c", "n"),
        helper.make_node("ReduceSum", ["w"], ["s"], keepdims=0),
        helper.make_node("Mul", ["n", "s"], ["y"]),
    ]
    result = folded(float32(nodes, X, ["y"], shared()))
    assert sorted(operators(result)) == ["Conv", "Mul", "ReduceSum"]


def test_of_two_norms_in_a_row_one_is_folded() -> None:
    nodes = [conv("x", "c"), norm("c", "n"), norm("n", "m")]
    assert operators(folded(float32(nodes, X, ["m"], shared()))) == ["Conv", "BatchNormalization"]


def test_a_norm_without_a_convolution_stays_and_the_graph_is_not_copied() -> None:
    model = float32([helper.make_node("Relu", ["x"], ["r"]), norm("r", "n")], X, ["n"], shared())
    assert fold_batch_norms(model) is model


def test_weights_that_are_computed_or_fed_stay() -> None:
    nodes = [helper.make_node("Relu", ["w"], ["v"]), conv("x", "c", "v"), norm("c", "n")]
    assert operators(folded(float32(nodes, X, ["n"], shared()))) == ["Relu", "Conv", "BatchNormalization"]
    weights = shared()
    fed = {**X, "w": weights.pop("w").shape}
    model = float32([conv("x", "c"), norm("c", "n")], fed, ["n"], weights)
    assert operators(folded(model)) == ["Conv", "BatchNormalization"]


def test_a_norm_in_training_mode_stays() -> None:
    node = helper.make_node(
        "BatchNormalization", ["c", *STATISTICS], ["n", "mean.new", "var.new"], training_mode=1
    )
    model = float32([conv("x", "c"), node], X, ["n"], shared())
    assert fold_batch_norms(model) is model


@pytest.mark.parametrize("source", ["mul", "bias"])
def test_the_convolution_stands_behind_all_that_it_reads(source: str) -> None:
    # Its batch norm comes much later in the list than itself.
    nodes = [
        conv("x", "c"),
        helper.make_node("Relu", ["x"], [source]),
        norm("c", "n"),
        helper.make_node("Add", ["n", source], ["y"]),
    ]
    assert operators(folded(float32(nodes, X, ["y"], shared()))) == ["Relu", "Conv", "Add"]


def test_names_of_new_weights_never_meet_old_ones() -> None:
    weights = {**shared(), "n.weight": np.ones((1,))}
    nodes = [conv("x", "c"), norm("c", "n"), helper.make_node("Mul", ["n", "n.weight"], ["y"])]
    folded(float32(nodes, X, ["y"], weights))


def test_names_of_new_weights_never_meet_values() -> None:
    nodes = [conv("x", "c"), norm("c", "n"), helper.make_node("Relu", ["n"], ["n.weight"])]
    folded(float32(nodes, X, ["n.weight"], shared()))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_norm_behind_a_transposed_convolution_is_folded(groups: int) -> None:
    random = np.random.default_rng(groups)
    weights = {
        "w": random.normal(size=(4, 3, 3, 3)),
        "b": random.normal(size=3 * groups),
        **statistics(random, 3 * groups),
    }
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["c"], group=groups, strides=[2, 2]),
        norm("c", "y"),
    ]
    model = float32(nodes, {"x": (2, 4, SIZE, SIZE)}, ["y"], weights)
    assert operators(folded(model)) == ["ConvTranspose"]
    np.testing.assert_allclose(
        computed(folded(model), False)[0], computed(model, False)[0], rtol=1e-4, atol=1e-4
    )

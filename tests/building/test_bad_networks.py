"""Networks and inputs that go wrong: onnxruntime's answer, place by place, or one clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, shape_inference

from tests.backends.packed.computed import MACHINES, computed, error, loaded
from tests.models.graphs import graph_of, tensor_info
from toolchain.arrays import Array
from toolchain.backends.packed.machine import Machine
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.errors import ToolchainError, UsageError

pytestmark = pytest.mark.slow


SHAPE = (1, 20, 12, 12)
CHANNELS = SHAPE[1]
SAME = [1] * 4
WIDE, NARROW = MACHINES[0], MACHINES[2]


def op(kind: str, *inputs: str, to: str = "m", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, list(inputs), [to], **attributes)


def some(*shape: int) -> Array:
    random = np.random.default_rng(sum(shape))
    return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("f4")


def network(
    nodes: Sequence[onnx.NodeProto],
    weights: dict[str, Any],
    inputs: dict[str, tuple[int, ...]] | None = None,
    code: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """Return a network; its output is `m`, its input `x` of `SHAPE` where nothing else is said."""
    given = [tensor_info(name, shape, code) for name, shape in (inputs or {"x": SHAPE}).items()]
    graph = graph_of(nodes, given, [tensor_info("m", None)], {k: np.asarray(v) for k, v in weights.items()})
    graph.graph.output[0].ClearField("type")
    graph.graph.output[0].type.CopyFrom(onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor()))
    return shape_inference.infer_shapes(graph, strict_mode=True)


def reference(model: onnx.ModelProto, inputs: dict[str, Array]) -> Array:
    """Return onnxruntime's output, finite or not."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: Array = session.run(None, inputs)[0]
    return found


def both(
    model: onnx.ModelProto, inputs: dict[str, Array], machine: Machine = WIDE, winograd: bool = False
) -> tuple[Array, Array]:
    """Return our output and onnxruntime's."""
    return computed(loaded(model), inputs, machine, winograd)["m"], reference(model, inputs)


def same(found: Array, expected: Array) -> bool:
    """Whether NaN and infinities are in the same places, and the numbers as near as float32 brings them."""
    numbers = np.isfinite(expected)
    return (
        bool((np.isnan(found) == np.isnan(expected)).all())
        and bool((found[np.isinf(expected)] == expected[np.isinf(expected)]).all())
        and error(found[numbers], expected[numbers]) < 1e-4
    )


def with_accidents() -> Array:
    """Return an image with NaN inside, and infinities on an edge and in a corner."""
    x = some(*SHAPE) * 40
    x[0, 3, 5, 5], x[0, 7, 0, 11], x[0, 0, 11, 0] = np.nan, np.inf, -np.inf
    return x


KEPT = {
    "conv": [op("Conv", "x", "w", pads=SAME)],
    "conv, relu": [op("Conv", "x", "w", pads=SAME, to="a"), op("Relu", "a")],
    "conv, clip": [op("Conv", "x", "w", pads=SAME, to="a"), op("Clip", "a", "low", "high")],
    "relu": [op("Relu", "x")],
    "clip": [op("Clip", "x", "low", "high")],
    "conv, hard swish": [op("Conv", "x", "w", pads=SAME, to="a"), op("HardSwish", "a")],
    "conv, sigmoid": [op("Conv", "x", "w", strides=[2, 2], to="a"), op("Sigmoid", "a")],
    "conv, conv": [op("Conv", "x", "w", pads=SAME, to="a"), op("Conv", "a", "few", pads=SAME)],
    "depthwise": [op("Conv", "x", "deep", pads=SAME, group=CHANNELS)],
    "average pool": [op("AveragePool", "x", kernel_shape=[3, 3], pads=SAME)],
    "softmax": [op("Softmax", "x", axis=1)],
    "dense": [op("Flatten", "x", to="a"), op("MatMul", "a", "dense")],
}
WEIGHTS: dict[str, np.ndarray] = {
    "w": some(CHANNELS, CHANNELS, 3, 3),
    "few": some(5, CHANNELS, 3, 3),
    "deep": some(CHANNELS, 1, 3, 3),
    "dense": some(int(np.prod(SHAPE)), 7),
    "low": np.float32(0),
    "high": np.float32(6),
}


@pytest.mark.slow
@pytest.mark.parametrize("machine", [WIDE, NARROW], ids=lambda machine: f"{machine.lanes} lanes")
def test_nan_and_infinity_go_where_they_go_in_onnxruntime(machine: Machine) -> None:
    wrong = []
    for name, nodes in KEPT.items():
        used = {key: value for key, value in WEIGHTS.items() if any(key in node.input for node in nodes)}
        if not same(*both(network(nodes, used), {"x": with_accidents()}, machine)):
            wrong.append(name)
    assert not wrong


@pytest.mark.slow
def test_winograd_makes_no_number_of_nan() -> None:
    # Its sums hold a whole tile: NaN reaches the tile's other pixels too, and infinity becomes NaN.
    model = network(KEPT["conv, relu"], {"w": WEIGHTS["w"]})
    direct, expected = both(model, {"x": with_accidents()})
    found, _ = both(model, {"x": with_accidents()}, winograd=True)
    assert same(direct, expected)
    assert not np.isfinite(found[np.isnan(expected)]).any()
    numbers = np.isfinite(found)
    assert numbers.sum() > 0.5 * np.isfinite(expected).sum(), "more than the tiles around them"
    assert error(found[numbers], expected[numbers]) < 1e-4


def test_sums_beyond_float32_are_infinite() -> None:
    large = np.abs(WEIGHTS["w"]) * np.float32(1e37)
    found, expected = both(network(KEPT["conv, relu"], {"w": large}), {"x": np.full(SHAPE, 1e3, "f4")})
    assert np.isinf(expected).all()
    assert same(found, expected)


def test_weights_that_are_nan_reach_the_output() -> None:
    broken = WEIGHTS["w"].copy()
    broken[3, 4, 1, 1] = np.nan
    assert same(*both(network(KEPT["conv"], {"w": broken}), {"x": some(*SHAPE)}, winograd=True))


def test_numbers_too_small_for_a_normal_float_are_kept() -> None:
    small = np.float32(1e-20)
    found, expected = both(network(KEPT["conv"], {"w": WEIGHTS["w"] * small}), {"x": some(*SHAPE) * small})
    assert 0 < np.abs(expected).max() < np.finfo("f4").tiny
    assert same(found, expected)


@pytest.mark.parametrize(
    "factor, says, hint",
    [
        (3e38, r"NaN or infinite in \d+ of \d+ places", "--sample x="),
        (np.nan, r"'w' holds NaN in \d+ of \d+ places", "export the network again"),
    ],
    ids=["sum", "weights"],
)
def test_refuses_network_whose_reference_is_not_finite(
    factor: float, says: str, hint: str, tmp_path: Any
) -> None:
    broken = {"w": WEIGHTS["w"] * np.float32(factor)}
    with pytest.raises(UsageError, match=says) as caught:
        build(loaded(network(KEPT["conv"], broken)), find_target("x86_64"), None, tmp_path)
    assert hint in caught.value.hint
    assert not list(tmp_path.iterdir())


EDGES = {
    "one pixel": (
        network([op("Conv", "x", "w", pads=SAME)], {"w": WEIGHTS["w"]}, {"x": (1, CHANNELS, 1, 1)})
    ),
    "no weights": network([op("Relu", "x", to="a"), op("GlobalAveragePool", "a")], {}),
    "weights shared by two layers": network(
        [op("Conv", "x", "w", pads=SAME, to="a"), op("Conv", "a", "w", strides=[2, 1])], {"w": WEIGHTS["w"]}
    ),
    "weights that are an input": network(
        [op("Conv", "x", "w", pads=SAME)], {}, {"x": SHAPE, "w": (8, CHANNELS, 3, 3)}
    ),
    "weights that are computed": network(
        [op("Mul", "w", "k", to="v"), op("Conv", "x", "v", pads=SAME)],
        {"w": WEIGHTS["w"]},
        {"x": SHAPE, "k": (CHANNELS, 1, 1, 1)},
    ),
    "a depthwise weight that is an input": network(
        [op("Conv", "x", "w", group=CHANNELS)], {}, {"x": SHAPE, "w": (CHANNELS, 1, 3, 3)}
    ),
    "a bias that is an input": network(
        [op("Conv", "x", "w", "b")], {"w": WEIGHTS["w"]}, {"x": SHAPE, "b": (CHANNELS,)}
    ),
    "a transposed weight that is an input": network(
        [op("ConvTranspose", "x", "w")], {}, {"x": SHAPE, "w": (CHANNELS, 4, 3, 3)}
    ),
    "a product of inputs": network(
        [op("Gemm", "a", "b", "c", transB=1)], {}, {"a": (3, 8), "b": (5, 8), "c": (5,)}
    ),
    "a scalar": network([op("Relu", "x")], {}, {"x": ()}),
    "six dimensions": network([op("Relu", "x")], {}, {"x": (1, 2, 3, 2, 2, 3)}),
    "float64": network([op("MatMul", "x", "w")], {"w": np.eye(8, 5)}, {"x": (3, 8)}, TensorProto.DOUBLE),
    "float16": network([op("Relu", "x")], {}, code=TensorProto.FLOAT16),
    "int8": network([op("MaxPool", "x", kernel_shape=[2, 2])], {}, code=TensorProto.INT8),
    "int32": network(
        [op("MatMul", "x", "w")],
        {"w": np.arange(40, dtype="i4").reshape(8, 5)},
        {"x": (3, 8)},
        TensorProto.INT32,
    ),
}


@pytest.mark.slow
def test_odd_networks_match_onnxruntime() -> None:
    wrong = []
    for name, model in EDGES.items():
        ready = loaded(model)
        random = np.random.default_rng(0)
        inputs = {spec.name: np.asarray(4 * random.random(spec.shape), spec.dtype) for spec in ready.inputs}
        found, expected = computed(ready, inputs, WIDE)["m"], reference(model, inputs)
        if not error(found, expected) < 1e-4:
            wrong.append(name)
    assert not wrong


CONV = [op("Conv", "x", "w")]
REFUSED = {
    "the tensor a=1,3,0,8, the result of Slice (node 'a'), is empty": (
        [op("Slice", "x", "from", "to", to="a"), op("Relu", "a")],
        {"from": np.array([0, 0, 3, 0]), "to": np.array([1, 3, 3, 8])},
    ),
    "its input x=1,0,8,8: an extent of 0": ([op("Relu", "x")], {}, {"x": (1, 0, 8, 8)}),
    "nothing is left of 'm'": (CONV, {"w": WEIGHTS["w"]}, {"x": (1, CHANNELS, 2, 2)}),
    "x=1,1,65536,32768 has 2147483648 elements": (
        CONV,
        {"w": some(2, 1, 1, 1)},
        {"x": (1, 1, 1 << 16, 1 << 15)},
    ),
    "m=1,2,65536,16384 has 2147483648 elements": (
        CONV,
        {"w": some(2, 1, 1, 1)},
        {"x": (1, 1, 1 << 16, 1 << 14)},
    ),
    "unsupported use of Conv": (CONV, {"w": some(2, 1, 2, 2, 2, 2)}, {"x": (1, 1, 3, 3, 3, 3)}),
}


@pytest.mark.parametrize("says", REFUSED)
def test_refuses_network_that_cannot_be_computed(says: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        loaded(network(*REFUSED[says]))
    assert says in str(caught.value)
    assert caught.value.exit_code == 2
    assert caught.value.hint

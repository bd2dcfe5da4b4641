"""Dropout, and operators of several operands: gone from the import, the numbers onnxruntime's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import UsageError

pytestmark = pytest.mark.slow

SHAPE = (2, 3, 4)


@pytest.mark.parametrize("opset", [7, 12])
@pytest.mark.parametrize("mask", [False, True])
def test_dropout_is_its_input(opset: int, mask: bool, tmp_path: Path) -> None:
    outputs = [tensor_info("y", SHAPE)]
    if mask:
        outputs.append(tensor_info("m", SHAPE, TensorProto.BOOL if opset >= 12 else TensorProto.FLOAT))
    names = [value.name for value in outputs]
    graph = graph_of(
        [helper.make_node("Dropout", ["x"], names)], [tensor_info("x", SHAPE)], outputs, {}, opset
    )
    model = loaded(graph, tmp_path)
    assert "dropout" not in str(model.module)
    assert_same(model)


def test_dropout_in_training_mode_is_refused(tmp_path: Path) -> None:
    graph = graph_of(
        [helper.make_node("Dropout", ["x", "r", "t"], ["y"])],
        [tensor_info("x", SHAPE)],
        [tensor_info("y", SHAPE)],
        {"r": np.float32(0.5), "t": np.bool_(True)},
    )
    with pytest.raises(UsageError, match=r"Dropout.*'y'.*training mode"):
        loaded(graph, tmp_path)


def test_dropout_of_a_constant_in_training_mode_is_refused(tmp_path: Path) -> None:
    """Its values would differ from build to build."""
    graph = graph_of(
        [helper.make_node("Dropout", ["c", "r", "t"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])],
        [tensor_info("x", SHAPE)],
        [tensor_info("y", SHAPE)],
        {"c": np.ones(SHAPE, np.float32), "r": np.float32(0.5), "t": np.bool_(True)},
    )
    with pytest.raises(UsageError, match=r"Dropout.*'d'.*training mode"):
        loaded(graph, tmp_path)


def rooted_pool(side: int) -> onnx.ModelProto:
    """Return a pool of windows of 3, 2 apart, the last of which may be cut off."""
    node = helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    shape = (1, 2, side, side)
    return graph_of([node], [tensor_info("x", shape)], [tensor_info("y", ("n", "c", "h", "w"))], {}, 18)


def test_a_pool_whose_last_window_fits(tmp_path: Path) -> None:
    assert_same(loaded(rooted_pool(7), tmp_path))


def test_a_pool_of_roots_whose_last_window_is_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"LpPool .*ceil_mode") as caught:
        loaded(rooted_pool(8), tmp_path)
    assert "pad its input" in str(caught.value.hint)


def test_slopes_of_old_sets_are_by_channel(tmp_path: Path) -> None:
    shape = (2, 3, 4, 5)
    graph = graph_of(
        [helper.make_node("PRelu", ["x", "s"], ["y"])],
        [tensor_info("x", shape)],
        [tensor_info("y", shape)],
        {"s": np.array([0.1, 0.5, 2], np.float32)},
        opset=6,
    )
    assert_same(loaded(graph, tmp_path))


@pytest.mark.parametrize("opset", [9, 13, 18])
@pytest.mark.parametrize("axes", [None, (1, 2), (-1,)])
def test_normalisation_over_any_axes(axes: tuple[int, ...] | None, opset: int, tmp_path: Path) -> None:
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **({"axes": axes} if axes else {}))
    shape = (2, 3, 4, 5)
    assert_same(
        loaded(graph_of([node], [tensor_info("x", shape)], [tensor_info("y", shape)], {}, opset), tmp_path)
    )


@pytest.mark.parametrize("axis", [0, -3, 1])
def test_rms_norm_over_any_axes(axis: int, tmp_path: Path) -> None:
    graph = graph_of(
        [helper.make_node("RMSNormalization", ["x", "w"], ["y"], axis=axis)],
        [tensor_info("x", SHAPE)],
        [tensor_info("y", SHAPE)],
        {"w": np.random.default_rng(0).normal(size=SHAPE[axis:]).astype(np.float32)},
        opset=23,
    )
    assert_same(loaded(graph, tmp_path))


@pytest.mark.parametrize("kind", ["int16", "int64", "float16"])
def test_the_largest_of_any_kind(kind: str, tmp_path: Path) -> None:
    of = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = graph_of(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1, largest=0)],
        [tensor_info("x", SHAPE, of)],
        [tensor_info("v", (2, 2, 4), of), tensor_info("i", (2, 2, 4), TensorProto.INT64)],
        {"k": np.array([2])},
    )
    assert_same(loaded(graph, tmp_path))


def test_the_largest_of_what_cannot_be_sorted_is_refused(tmp_path: Path) -> None:
    of = TensorProto.UINT64
    graph = graph_of(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1)],
        [tensor_info("x", SHAPE, of)],
        [tensor_info("v", (2, 2, 4), of), tensor_info("i", (2, 2, 4), TensorProto.INT64)],
        {"k": np.array([2])},
    )
    with pytest.raises(UsageError, match=r"TopK .*'v'.*uint64"):
        loaded(graph, tmp_path)


@pytest.mark.parametrize("count", [65, 300])
def test_a_concatenation_of_many_is_done_in_steps(count: int, tmp_path: Path) -> None:
    graph = graph_of(
        [helper.make_node("Concat", [f"x{number % 3}" for number in range(count)], ["y"], axis=1)],
        [tensor_info(f"x{number}", (2, 1, 3)) for number in range(3)],
        [tensor_info("y", (2, count, 3))],
        {},
    )
    model = loaded(graph, tmp_path)
    parts_of = [found.split(",") for found in re.findall(r"R\.concat\(\(([^)]*)\)", str(model.module))]
    assert parts_of
    assert max(map(len, parts_of)) <= 64
    assert_same(model)


def test_drops_empty_parts(tmp_path: Path) -> None:
    """As rotary embeddings write them that turn all of a head."""
    graph = graph_of(
        [
            helper.make_node("Split", ["x", "sizes"], ["turned", "rest", "kept"], axis=1),
            helper.make_node("Neg", ["turned"], ["t"]),
            helper.make_node("Concat", ["t", "rest", "kept"], ["y"], axis=1),
        ],
        [tensor_info("x", SHAPE)],
        [tensor_info("y", SHAPE)],
        {"sizes": np.array([1, 0, 2])},
    )
    assert_same(loaded(graph, tmp_path))

"""Sequences that shapes and constants decide leave nothing but their tensors."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from tests.models.folding.test_control import body, kinds, model, node
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import UsageError


def split(sizes: str, **attributes: object) -> list[onnx.NodeProto]:
    return [node("SplitToSequence", f"x {sizes}".strip(), "s", **attributes)]


@pytest.mark.slow
@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [("", {"axis": 0, "keepdims": 1}), ("", {"axis": 1, "keepdims": 0}), ("two", {"axis": 1}), ("list", {})],
)
def test_folds_sequence_split_and_concatenation(
    tmp_path: Path, opset: int, sizes: str, attributes: dict[str, int]
) -> None:
    alone = attributes.get("keepdims") == 0
    graph = model(
        [
            node("SplitToSequence", f"x {sizes}".strip(), "s", **attributes),
            node("SequenceAt", "s last", "end"),
            node("SequenceInsert", "s end zero", "longer"),
            node("SequenceInsert", "longer end", "longest"),
            node(
                "ConcatFromSequence", "longest", "y", axis=attributes.get("axis", 0), new_axis=int(alone)
            ),
        ],
        opset, last=-1, zero=0, two=2, list=[1, 2],
    )  # fmt: skip
    assert kinds(graph) <= {"Gather", "Slice", "Concat", "Unsqueeze", "Identity"}
    assert_same(loaded(graph, tmp_path))


def test_a_loop_that_fills_a_sequence(tmp_path: Path) -> None:
    once = body(
        [
            node("Gather", "x i", "row", axis=0),
            node("Relu", "row", "positive"),
            node("SequenceInsert", "list positive", "longer"),
        ],
        {"i": TensorProto.INT64, "going": TensorProto.BOOL}, ["going", "longer"],
    )  # fmt: skip
    once.input.append(onnx.helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None))
    once.output[1].CopyFrom(onnx.helper.make_tensor_sequence_value_info("longer", TensorProto.FLOAT, None))
    graph = model(
        [
            node("SequenceEmpty", "", "none"),
            node("Loop", "trips _ none", "all", body=once),
            node("SequenceLength", "all", "count"),
            node("ConcatFromSequence", "all", "rows", axis=0, new_axis=1),
            node("Cast", "count", "number", to=TensorProto.FLOAT),
            node("Mul", "rows number", "y"),
        ],
        trips=3,
    )  # fmt: skip
    assert kinds(graph) == {"Gather", "Relu", "Unsqueeze", "Concat", "Mul"}
    assert_same(loaded(graph, tmp_path))


def test_refuses_computed_sequence_index(tmp_path: Path) -> None:
    graph = model(
        [
            node("SequenceConstruct", "x x", "s"),
            node("ReduceMax", "x", "m", keepdims=0),
            node("Cast", "m", "place", to=TensorProto.INT64),
            node("SequenceAt", "s place", "y", name="pick"),
        ]
    )
    with pytest.raises(UsageError, match=r"SequenceAt"):
        loaded(graph, tmp_path)


def test_refuses_sequence_as_output(tmp_path: Path) -> None:
    graph = model([*split(""), node("Relu", "x", "y")])
    graph.graph.output.append(onnx.helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    with pytest.raises(UsageError):
        loaded(graph, tmp_path)

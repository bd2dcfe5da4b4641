"""What scikit-learn's converters write, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models.graphs import tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import UsageError

pytestmark = pytest.mark.slow

ML = "ai.onnx.ml"
W = [0.5, -1.0, 2.0, 1.5, 0.25, -0.75, 1.0, 0.0, -2.0]  # three rows of three


def network(
    *nodes: onnx.NodeProto, outputs: dict[str, tuple[tuple[int, ...], int]], opset: int = 18, **stored: Any
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    infos = [tensor_info(name, shape, code) for name, (shape, code) in outputs.items()]
    graph = helper.make_graph(list(nodes), "net", [tensor_info("x", (4, 3))], infos, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def ml(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, outputs, domain=ML, **attributes)


@pytest.mark.parametrize(
    ("operator", "attributes", "opset"),
    [
        ("Scaler", {"offset": [1.0, -2.0, 0.5], "scale": [2.0, 0.5, 3.0]}, 18),
        ("Scaler", {"offset": [1.0], "scale": [2.0]}, 18),
        ("Normalizer", {"norm": "L1"}, 18),
        ("Normalizer", {"norm": "L2"}, 18),
        ("Normalizer", {"norm": "MAX"}, 18),
        ("Normalizer", {"norm": "L2"}, 12),
        ("Imputer", {"imputed_value_floats": [7.0, 8.0, 9.0]}, 18),
        ("Binarizer", {"threshold": 0.25}, 18),
    ],
)
def test_preprocessing(tmp_path: Path, operator: str, attributes: dict[str, Any], opset: int) -> None:
    node = ml(operator, ["x"], ["y"], **attributes)
    assert_same(loaded(network(node, outputs={"y": ((4, 3), TensorProto.FLOAT)}, opset=opset), tmp_path))


def test_missing_values_are_replaced_and_a_row_of_zeros_keeps_them(tmp_path: Path) -> None:
    rows = np.array([[1], [0], [-9], [2]], np.float32)
    nodes = [
        helper.make_node("Sqrt", ["x"], ["with_nan"]),  # of negative values there is none
        ml(
            "Imputer",
            ["with_nan"],
            ["full"],
            imputed_value_floats=[5.0, 6.0, 7.0],
            replaced_value_float=float("nan"),
        ),
        helper.make_node("Mul", ["full", "rows"], ["scaled"]),
        ml("Normalizer", ["scaled"], ["y"], norm="L2"),
        ml("Imputer", ["rows"], ["z"], imputed_value_floats=[5.0], replaced_value_float=-9.0),
    ]
    outputs = {"y": ((4, 3), TensorProto.FLOAT), "z": ((4, 1), TensorProto.FLOAT)}
    model = network(*nodes, outputs=outputs, rows=rows)
    assert_same(loaded(model, tmp_path))


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("intercepts", [True, False])
def test_regressions(tmp_path: Path, targets: int, intercepts: bool) -> None:
    more = {"intercepts": [0.5, 1.0, -1.0][:targets]} if intercepts else {}
    node = ml("LinearRegressor", ["x"], ["y"], coefficients=W[: 3 * targets], targets=targets, **more)
    assert_same(loaded(network(node, outputs={"y": ((4, targets), TensorProto.FLOAT)}), tmp_path))


def classifier(labels: dict[str, Any], classes: int, transform: str) -> onnx.NodeProto:
    return ml("LinearClassifier", ["x"], ["label", "scores"], coefficients=W[: 3 * classes],
              intercepts=[0.5, 1.0, -1.0][:classes], post_transform=transform, multi_class=1,
              **labels)  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_of_whole_numbers(tmp_path: Path, transform: str, classes: int) -> None:
    node = classifier({"classlabels_ints": [7, 3, 11][:classes]}, classes, transform)
    outputs = {"label": ((4,), TensorProto.INT64), "scores": ((4, classes), TensorProto.FLOAT)}
    assert_same(loaded(network(node, outputs=outputs), tmp_path))


def test_classes_that_are_words_can_be_left_out(tmp_path: Path) -> None:
    node = classifier({"classlabels_strings": ["no", "yes", "perhaps"]}, 3, "SOFTMAX")
    outputs = {"label": ((4,), TensorProto.STRING), "scores": ((4, 3), TensorProto.FLOAT)}
    model = network(node, outputs=outputs)
    assert_same(loaded(model, tmp_path, outputs=("scores",)))
    with pytest.raises(UsageError, match="LinearClassifier"):
        loaded(model, tmp_path)


def test_labels_are_picked_by_places(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ArgMax", ["x"], ["place"], axis=1),
        ml("ArrayFeatureExtractor", ["classes", "place"], ["picked"]),
        helper.make_node("Reshape", ["picked", "flat"], ["label"]),
        ml("ArrayFeatureExtractor", ["x", "columns"], ["some"]),
    ]
    outputs = {"label": ((4,), TensorProto.INT64), "some": ((4, 2), TensorProto.FLOAT)}
    model = network(*nodes, outputs=outputs, classes=np.array([5, 9, 4]), flat=np.array([-1]),
                    columns=np.array([2, 0]))  # fmt: skip
    assert_same(loaded(model, tmp_path))


def test_refuses_operator_without_rule_by_name(tmp_path: Path) -> None:
    node = ml("LinearRegressor", ["x"], ["y"], coefficients=W[:3], targets=1, post_transform="PROBIT")
    with pytest.raises(UsageError, match="LinearRegressor"):
        loaded(network(node, outputs={"y": ((4, 1), TensorProto.FLOAT)}), tmp_path)

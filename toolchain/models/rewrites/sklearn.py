"""Rewrites operators of ai.onnx.ml on tensors: scikit-learn's pipelines without trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from toolchain.models.onnx_graph import attributes_of
from toolchain.models.rewrites.graph import FROM_BEGINNING, Graph, Rule

FLOAT = onnx.TensorProto.FLOAT
_DOMAIN = "ai.onnx.ml."


def scaler(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Scaler` as (x - offset) * scale."""
    attributes = attributes_of(node)
    x = graph.emit("Cast", [node.input[0]], to=FLOAT)
    if attributes.get("offset"):
        x = graph.emit("Sub", [x, _floats(graph, attributes["offset"])])
    graph.emit("Mul", [x, _floats(graph, attributes.get("scale") or [1.0])], node.output)
    return True


def normalizer(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Normalizer`: divide each row by its norm; a row of norm 0 is not changed."""
    kind = attributes_of(node).get("norm", b"MAX").decode()
    operator = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}.get(kind)
    if operator is None:
        return False
    x = graph.emit("Cast", [node.input[0]], to=FLOAT)
    last = [-1]
    if graph.opset >= 18:
        norm = graph.emit(operator, [x, graph.constant(np.array(last))], keepdims=1)
    else:
        norm = graph.emit(operator, [x], axes=last, keepdims=1)
    nothing = graph.emit("Equal", [norm, graph.constant(np.float32(0))])
    divisor = graph.emit("Where", [nothing, graph.constant(np.float32(1)), norm])
    graph.emit("Div", [x, divisor], node.output)
    return True


def imputer(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Imputer` of floats: replace missing values (by default NaN) by the value of their column."""
    attributes = attributes_of(node)
    values, missing = (
        attributes.get("imputed_value_floats"),
        attributes.get("replaced_value_float", float("nan")),
    )
    if not values:
        return False
    x = node.input[0]
    if np.isnan(missing):
        absent = graph.emit("IsNaN", [x])
    else:
        absent = graph.emit("Equal", [x, graph.constant(np.float32(missing))])
    graph.emit("Where", [absent, _floats(graph, values), x], node.output)
    return True


def binarizer(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Binarizer` as a comparison: 1 above the threshold, else 0."""
    x = graph.emit("Cast", [node.input[0]], to=FLOAT)
    threshold = graph.constant(np.float32(attributes_of(node).get("threshold", 0.0)))
    graph.emit("Cast", [graph.emit("Greater", [x, threshold])], node.output, to=FLOAT)
    return True


def linear_regressor(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `LinearRegressor` as a dense layer."""
    attributes = attributes_of(node)
    if attributes.get("post_transform", b"NONE") != b"NONE":
        return False
    _dense(node, graph, attributes, attributes.get("targets", 1), node.output)
    return True


def linear_classifier(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `LinearClassifier` as a dense layer for the scores; the label is that of the largest score.

    Labels that are words cannot be computed as tensors: the node is kept if the network reads them.
    """
    attributes = attributes_of(node)
    labels = attributes.get("classlabels_ints")
    classes = len(labels or attributes.get("classlabels_strings", ()))
    label, scores = node.output
    finish = {b"NONE": "Identity", b"SOFTMAX": "Softmax", b"LOGISTIC": "Sigmoid"}
    operator = finish.get(attributes.get("post_transform", b"NONE"))
    read = label in graph.readers
    if classes < 2 or len(attributes.get("intercepts", ())) not in (0, classes) or operator is None:
        return False
    if read and labels is None:
        return False
    raw = _dense(node, graph, attributes, classes, None)
    axis = {"axis": 1} if operator == "Softmax" else {}
    graph.emit(operator, [raw], [scores], **axis)
    if read:
        largest = graph.emit("ArgMax", [raw], axis=1, keepdims=0)
        graph.emit("Gather", [graph.constant(np.array(labels, np.int64)), largest], [label], axis=0)
    return True


def array_feature_extractor(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `ArrayFeatureExtractor`: gather along the last axis; a vector becomes a matrix of one row."""
    x, places = node.input
    shape = graph.shape(x)
    if shape is None:
        return False
    if len(shape) == 1:
        x = graph.emit("Reshape", [x, graph.constant(np.array([1, -1]))])
    flat = graph.emit("Reshape", [places, graph.constant(np.array([-1]))])
    axis = max(1, len(shape) - 1)
    graph.emit("Gather", [x, flat], node.output, axis=axis, doc_string=FROM_BEGINNING)
    return True


RULES: dict[str, Rule] = {
    f"{_DOMAIN}ArrayFeatureExtractor": array_feature_extractor,
    f"{_DOMAIN}Binarizer": binarizer,
    f"{_DOMAIN}Imputer": imputer,
    f"{_DOMAIN}LinearClassifier": linear_classifier,
    f"{_DOMAIN}LinearRegressor": linear_regressor,
    f"{_DOMAIN}Normalizer": normalizer,
    f"{_DOMAIN}Scaler": scaler,
}
"""Operator, with its domain -> the rule that replaces it."""


def _dense(node: onnx.NodeProto, graph: Graph, attributes: dict[str, Any], units: int, outputs: Any) -> str:
    """Write the product with the coefficients, a row for each unit, and add the intercepts."""
    weight = np.array(attributes["coefficients"], np.float32).reshape(units, -1).T
    x = graph.emit("Cast", [node.input[0]], to=FLOAT)
    intercepts = attributes.get("intercepts")
    if not intercepts:
        return graph.emit("MatMul", [x, graph.constant(weight)], outputs)
    product = graph.emit("MatMul", [x, graph.constant(weight)])
    return graph.emit("Add", [product, _floats(graph, intercepts)], outputs)


def _floats(graph: Graph, values: Any) -> str:
    return graph.constant(np.array(values, np.float32))

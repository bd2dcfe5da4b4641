"""The three views of a graph that was asked for: as it came, with its shapes, and what is constant."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.errors import UsageError
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.prepare import prepare
from toolchain.models.preparing.tensor_types import dimensions
from toolchain.models.reading.source import Source


def source() -> Source:
    """Return a scaled sum and, apart from it, a square: inputs `a` and `b` of n rows, `scale` a scalar."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Mul", ["sum", "scale"], ["scaled"]),
        helper.make_node("Mul", ["b", "b"], ["square"]),
    ]
    model = graph_of(
        nodes,
        [tensor_info("a", ("n", 3)), tensor_info("b", ("n", 3)), tensor_info("scale", ())],
        [tensor_info("scaled", ("n", 3)), tensor_info("square", ("n", 3))],
        {},
    )
    return Source("net", "net.onnx", model, "0" * 64)


def shapes(model: onnx.ModelProto) -> dict[str, tuple[int | str, ...] | None]:
    return {value.name: dimensions(value) for value in (*model.graph.input, *model.graph.output)}


def test_the_source_stays_as_declared_and_the_static_view_has_the_shapes() -> None:
    found = prepare(source(), ModelOptions(batch=4, input_values={"scale": "2.5"}))
    assert shapes(found.given)["a"] == ("n", 3)
    assert shapes(found.static) == {
        "a": (4, 3), "b": (4, 3), "scale": (), "scaled": (4, 3), "square": (4, 3)
    }  # fmt: skip
    assert found.frozen == {"scale": np.float32(2.5)}
    assert [node.op_type for node in found.static.graph.node] == ["Add", "Mul", "Mul"], "nothing is folded"


def test_cut_drops_unread_frozen_input() -> None:
    options = ModelOptions(batch=2, input_values={"scale": "2.5"}, outputs=("square",))
    found = prepare(source(), options)
    assert found.frozen == {}
    assert list(shapes(found.static)) == ["b", "square"] == list(shapes(found.given))


def test_an_open_shape_of_what_was_cut_off_is_not_asked_for() -> None:
    given = source()
    given.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "m"
    options = ModelOptions(shapes={"b": (2, 3)}, outputs=("square",))
    assert shapes(prepare(given, options).static)["b"] == (2, 3)
    with pytest.raises(UsageError, match="leaves open the shapes of its inputs: a=m,3"):
        prepare(given, ModelOptions(shapes={"b": (2, 3)}))


def test_partly_leaves_other_dimensions_open() -> None:
    with pytest.raises(UsageError, match="leaves open"):
        prepare(source(), ModelOptions())
    assert shapes(prepare(source(), ModelOptions(), partly=True).static)["a"] == ("n", 3)


def test_a_wrong_option_is_refused_even_for_what_is_cut_off() -> None:
    options = ModelOptions(batch=2, shapes={"gone": (1,)}, outputs=("square",))
    with pytest.raises(UsageError, match=r"net\.onnx has no input 'gone'"):
        prepare(source(), options)


def test_preparing_does_not_change_the_source() -> None:
    given = source()
    before = given.proto.SerializeToString(deterministic=True)
    prepare(given, ModelOptions(batch=4, input_values={"scale": "1"}, outputs=("scaled",)))
    assert given.proto.SerializeToString(deterministic=True) == before

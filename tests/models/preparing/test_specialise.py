"""Open dimensions: filled in by the user, or asked for by name."""

from __future__ import annotations

import pytest
from onnx import helper

from tests.models.graphs import Dimensions, classifier, graph_of, tensor_info
from tests.models.preparing.conftest import Save
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions


@pytest.mark.parametrize(
    ("declared", "options"),
    [
        (("batch", 3, "h", "w"), ModelOptions(shapes={"data": (2, 3, 9, 7)})),
        (("batch", 3, 9, 7), ModelOptions(batch=2)),
        (("batch", 3, "h", "w"), ModelOptions(batch=2, shapes={"data": (2, 3, 9, 7)})),
        ((None, None, None, None), ModelOptions(shapes={"data": (2, 3, 9, 7)})),
        (None, ModelOptions(shapes={"data": (2, 3, 9, 7)})),
        ((2, 3, 9, 7), ModelOptions(batch=2)),
    ],
)
def test_open_dimensions_are_filled(save: Save, declared: Dimensions, options: ModelOptions) -> None:
    model = load_model(save(classifier(shape=declared)), options)
    assert model.inputs[0].shape == (2, 3, 9, 7)
    assert model.outputs[0].shape == (2, 5)
    assert model.softmax_outputs == {"prob"}


@pytest.mark.parametrize(
    ("declared", "options", "message"),
    [
        (
            ("batch", 3, "h", 8),
            ModelOptions(),
            "leaves open .* data=batch,3,h,8 .*--shape data=1,3,D,8 with numbers for D",
        ),
        (
            ("batch", 3, 8, 8),
            ModelOptions(),
            r"add to what you typed: --shape data=1,3,8,8; or --batch N",
        ),
        (("batch", 3, "h", 8), ModelOptions(batch=2), "leaves open .* data=2,3,h,8"),
        (None, ModelOptions(), r"data \(not even how many dimensions\) .*--shape data=D,D,D,D"),
        ((1, 3, 8, 8), ModelOptions(batch=2), "--batch 2: .*no input that can have this first dimension"),
        ((1, 3, 8, 8), ModelOptions(shapes={"data": (1, 3, 9, 9)}), "declares data=1,3,8,8, and only open"),
        ((1, 3, 8, 8), ModelOptions(shapes={"dat": (1,)}), "no input 'dat' .its inputs are: data"),
        (
            ("n", 3, "s", "s"),
            ModelOptions(shapes={"data": (1, 3, 9, 8)}),
            "dimension 's' was given as 9 before",
        ),
        (("n", "c", 8, 8), ModelOptions(shapes={"data": (1, 4, 8, 8)}), "net.onnx.*conv"),
    ],
)
def test_names_open_or_contradictory_dimension(
    save: Save, declared: Dimensions, options: ModelOptions, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_model(save(classifier(shape=declared)), options)
    assert caught.value.exit_code == 2


def test_dimension_name_bound_by_one_input_binds_others(save: Save) -> None:
    model = graph_of(
        [helper.make_node("Add", ["a", "b"], ["sum"], "add")],
        [tensor_info("a", ("n", "m")), tensor_info("b", (1, "m"))],
        [tensor_info("sum", ("n", "m"))],
        {},
    )
    loaded = load_model(save(model), ModelOptions(shapes={"a": (4, 6)}))
    assert [spec.shape for spec in (*loaded.inputs, *loaded.outputs)] == [(4, 6), (1, 6), (4, 6)]
    batched = load_model(save(model), ModelOptions(batch=4, shapes={"b": (1, 6)}))
    assert batched.outputs[0].shape == (4, 6)


def test_lists_open_dimensions_of_all_inputs(save: Save) -> None:
    model = graph_of(
        [helper.make_node("Concat", ["a b", "c"], ["both"], axis=1)],
        [tensor_info("a b", ("n", "m")), tensor_info("c", (1, None))],
        [tensor_info("both", ("n", None))],
        {},
    )
    with pytest.raises(UsageError, match=r"its inputs: a b=n,m; c=1,[?]") as caught:
        load_model(save(model), ModelOptions(outputs=("both",)))
    assert caught.value.hint
    assert caught.value.hint.startswith("add to what you typed: --shape 'a b=1,D' --shape c=1,D with")
    with pytest.raises(UsageError, match=r"inputs: c=1,[?]") as caught:
        load_model(save(model), ModelOptions(shapes={"a b": (1, 2)}))
    assert caught.value.hint.startswith("add to what you typed: --shape c=1,D with numbers for D")


def test_inspect_counts_once_the_shape_is_given(save: Save) -> None:
    path = save(classifier(shape=("batch", 3, "h", 8)))
    found = inspect_model(path, ModelOptions(shapes={"data": (2, 3, 8, 8)}))
    assert found["macs"] == 2 * (4 * 8 * 8 * 27 + 5 * 4)

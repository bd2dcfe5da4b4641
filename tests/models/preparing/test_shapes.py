"""Open dimensions: filled in by the user, or asked for by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import Dimensions, classifier, graph_of, tensor_info
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

Save = Callable[[onnx.ModelProto], str]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(model: onnx.ModelProto) -> str:
        path = tmp_path / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return str(path)

    return write


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
def test_what_is_open_or_contradicts_is_named(
    save: Save, declared: Dimensions, options: ModelOptions, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_model(save(classifier(shape=declared)), options)
    assert caught.value.exit_code == 2


def test_a_name_bound_by_one_input_holds_for_the_others(save: Save) -> None:
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


@pytest.mark.parametrize("nameless", ["?", "-1", "None", "unk__7", ""])
def test_dimensions_without_a_name_are_not_the_same_one(save: Save, nameless: str) -> None:
    model = classifier(shape=(1, 3, "h", "w"))
    for dim in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = nameless
    found = inspect_model(save(model), ModelOptions())
    assert found["inputs"][0]["shape"] == [1, 3, "?", "?"]
    shapes = {"data": (1, 3, 9, 8)}
    assert load_model(save(model), ModelOptions(shapes=shapes)).inputs[0].shape == (1, 3, 9, 8)


def test_what_is_open_is_told_for_all_inputs_at_once(save: Save) -> None:
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


def test_inspect_shows_open_dimensions_by_name(save: Save) -> None:
    found = inspect_model(save(classifier(shape=("batch", 3, None, 8))), ModelOptions())
    assert found["inputs"] == [{"name": "data", "shape": ["batch", 3, "?", 8], "dtype": "float32"}]
    assert found["outputs"] == [{"name": "prob", "shape": ["batch", 5], "dtype": "float32"}]
    assert found["macs"] is None and found["parameters"] == 4 * 27 + 2 * 4 + 25


def test_inspect_counts_once_the_shape_is_given(save: Save) -> None:
    path = save(classifier(shape=("batch", 3, "h", 8)))
    found = inspect_model(path, ModelOptions(shapes={"data": (2, 3, 8, 8)}))
    assert found["macs"] == 2 * (4 * 8 * 8 * 27 + 5 * 4)


def test_a_tensor_of_more_elements_than_32_bits_count_is_refused(save: Save) -> None:
    path = save(classifier(shape=("batch", 3, "h", "w")))
    for shape, says in (
        ((1, 3, 1 << 15, 1 << 15), "data=1,3,32768,32768 has 3221225472 elements"),
        (
            (1, 3, 1 << 14, 1 << 15),
            "=1,4,16384,32768 has 2147483648 elements",
        ),  # its convolution
    ):
        with pytest.raises(UsageError, match=says) as caught:
            load_model(path, ModelOptions(shapes={"data": shape}))
        assert caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "length"), [("Range", 2**40), ("Tile", 2**27)])
def test_a_constant_that_would_fill_any_memory_is_not_computed(
    tmp_path: Path, operator: str, length: int
) -> None:
    """Read in a process that may not have 8 GiB: onnx needs 100 bytes for each value that it follows."""
    stored = {"from": np.int64(0), "to": np.int64(length), "by": np.int64(1)}
    if operator == "Tile":
        stored = {"one": np.ones(1, np.int64), "times": np.array([length])}
    nodes = [
        helper.make_node(operator, list(stored), ["long"]),
        helper.make_node("Cast", ["long"], ["values"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "values"], ["y"]),
    ]
    weights = {name: np.asarray(value) for name, value in stored.items()}
    model = graph_of(nodes, [tensor_info("x", [1])], [tensor_info("y", [length])], weights)
    onnx.save(model, tmp_path / "net.onnx")
    program = """
import resource, sys
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
try:
    load_model(sys.argv[1], ModelOptions())
    print("loaded")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "net.onnx"], capture_output=True, text=True, timeout=100
    )
    said = "loaded\n" if length < 2**31 else "UsageError"
    assert done.stdout.startswith(said) and "alloc" not in done.stdout, done.stdout + done.stderr

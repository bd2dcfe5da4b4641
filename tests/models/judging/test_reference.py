"""Inputs to try a network with, and the outputs it ought to give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, inliner
from onnxruntime.transformers.float16 import convert_float_to_float16

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import ToolchainError, UsageError
from toolchain.models import load
from toolchain.models.judging import session
from toolchain.models.judging.reference import reference_outputs, sample_inputs, seeded_reference
from toolchain.models.preparing import prepare
from toolchain.models.preparing.modernise import modernise
from toolchain.models.proof import check_alike
from toolchain.models.samples import UnusableSampleError


def test_samples_follow_seed_and_dtype(tmp_path: Path) -> None:
    inputs = {"f": TensorProto.FLOAT, "d": TensorProto.DOUBLE, "i": TensorProto.INT64, "b": TensorProto.BOOL}
    casts = [helper.make_node("Cast", [name], [name + "_out"], to=TensorProto.FLOAT) for name in inputs]
    graph = graph_of(
        casts,
        [tensor_info(name, (50,), code) for name, code in inputs.items()],
        [tensor_info(name + "_out", (50,)) for name in inputs],
        {},
    )
    model = loaded(graph, tmp_path)
    sample = sample_inputs(model, 3)
    assert [array.dtype.name for array in sample.values()] == ["float32", "float64", "int64", "bool"]
    assert all((sample_inputs(model, 3)[name] == array).all() for name, array in sample.items())
    assert (sample_inputs(model, 4)["f"] != sample["f"]).any() and abs(sample["f"].mean()) < 0.5
    assert set(np.unique(sample["i"])) <= {0, 1, 2, 3}
    with pytest.raises(UsageError, match="--sample f: dtype float64"):
        reference_outputs(model, {**sample, "f": sample["d"]})


IDS, MASK = tensor_info("ids", (1, 60), TensorProto.INT64), tensor_info("mask", (1, 60), TensorProto.INT64)
Y = tensor_info("y", (1, 60))


def embedding(rows: int) -> onnx.ModelProto:
    """A table of so many rows, indexed by an input."""
    table = {"table": np.arange(rows, dtype="float32")}
    return graph_of([helper.make_node("Gather", ["table", "ids"], ["y"])], [IDS], [Y], table)


def masked() -> onnx.ModelProto:
    """The logarithm of 2 - mask: infinite for a mask of 2, NaN for 3."""
    nodes = [
        helper.make_node("Sub", ["two", "mask"], ["left"]),
        helper.make_node("Cast", ["left"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Log", ["float"], ["y"]),
    ]
    return graph_of(nodes, [MASK], [Y], {"two": np.array(2)})


def divided(by: str) -> onnx.ModelProto:
    """Sevens divided by an input, or by what is left of it to one."""
    nodes = [
        helper.make_node("Sub", ["one", "mask"], ["left"]),
        helper.make_node("Div", ["seven", by], ["quotient"]),
        helper.make_node("Cast", ["quotient"], ["y"], to=TensorProto.FLOAT),
    ]
    return graph_of(nodes, [MASK], [Y], {"seven": np.array(7), "one": np.array(1)})


def elementary(operator: str) -> onnx.ModelProto:
    return graph_of([helper.make_node(operator, ["x"], ["y"])], [tensor_info("x", (1, 60))], [Y], {})


@pytest.mark.parametrize(
    ("graph", "drawn", "instead_of", "reason"),
    [
        (embedding(4), "integers 0 to 3", "", ""),
        (embedding(2), "integers 0 and 1", "integers 0 to 3", "indices element out of data bounds"),
        (masked(), "integers 0 and 1", "integers 0 to 3", "'y' is NaN or infinite in"),
        (divided("mask"), "integers all 1", "integers 0 to 3", "division by zero"),
        (divided("left"), "integers all 0", "integers 0 to 3", "division by zero"),
        (elementary("Log"), "floats between 0 and 1", "normal floats", "'y' is NaN or infinite in"),
        (elementary("Acosh"), "floats between 1 and 2", "normal floats", "'y' is NaN or infinite in"),
    ],
    ids=["table", "small table", "mask", "divisor", "one less the divisor", "logarithm", "acosh"],
)
def test_tries_next_sort_of_sample_when_one_is_unusable(
    graph: onnx.ModelProto, drawn: str, instead_of: str, reason: str, tmp_path: Path
) -> None:
    found = seeded_reference(loaded(graph, tmp_path))
    assert (found.drawn, found.instead_of) == (drawn, instead_of) and reason in found.reason
    assert np.isfinite(found.outputs["y"]).all()
    assert drawn in str(found) and found.reason in str(found)
    assert found.to_json()["reason"] == (found.reason or None)


def test_no_usable_sort_reports_the_first_and_the_option(tmp_path: Path) -> None:
    """A table of one row, picked from at 2 and more alone."""
    nodes = [
        helper.make_node("Sub", ["ids", "nine"], ["row"]),
        helper.make_node("Gather", ["table", "row"], ["y"]),
    ]
    constants = {"table": np.ones(1, "float32"), "nine": np.array(9)}
    model = loaded(graph_of(nodes, [IDS], [Y], constants), tmp_path)
    with pytest.raises(
        UsageError, match=r"out of data bounds.*tried with integers 0 to 3; nor with"
    ) as raised:
        seeded_reference(model, option="--input")
    assert raised.value.hint.endswith("--input ids=FILE.npy")
    assert reference_outputs(model, {"ids": np.full((1, 60), 9)})["y"].all()


def test_reports_file_that_onnxruntime_cannot_load_with_hint(tmp_path: Path) -> None:
    values = [tensor_info(name, (3,), TensorProto.UINT16) for name in ("x", "n")]
    node = helper.make_node("BitShift", ["x", "n"], ["y"], direction="LEFT")
    model = loaded(graph_of([node], values, [tensor_info("y", (3,), TensorProto.UINT16)], {}), tmp_path)
    with pytest.raises(UsageError, match=r"cannot load it: .*BitShift") as raised:
        seeded_reference(model)
    assert "--outputs" in raised.value.hint


def test_reports_nan_weights(tmp_path: Path) -> None:
    graph = classifier()
    weight = onnx.numpy_helper.to_array(graph.graph.initializer[0]).copy()
    weight[1, 2, 0, 0] = np.nan
    graph.graph.initializer[0].raw_data = weight.tobytes()
    model = loaded(graph, tmp_path)
    with pytest.raises(UsageError, match=r"its tensor 'conv.weight' holds NaN in 1 of 108 places") as raised:
        seeded_reference(model)
    assert "export the network again" in raised.value.hint


def test_does_not_blame_unrelated_nan(tmp_path: Path) -> None:
    """What is NaN for x below -9 is chosen by none; the square root is."""
    nodes = [
        helper.make_node("Sub", ["x", "nine"], ["less"]),
        helper.make_node("Sqrt", ["less"], ["root"]),
        helper.make_node("Less", ["x", "low"], ["where"]),
        helper.make_node("Where", ["where", "hole", "root"], ["y"]),
    ]
    constants = {"nine": np.float32(9), "low": np.float32(-9), "hole": np.float32(np.nan)}
    model = loaded(graph_of(nodes, [tensor_info("x", (1, 60))], [Y], constants), tmp_path)
    with pytest.raises(UsageError, match="'y' is NaN or infinite") as raised:
        seeded_reference(model)
    assert "hole" not in str(raised.value) and "--sample x=FILE.npy" in raised.value.hint
    assert (reference_outputs(model, {"x": np.full((1, 60), 10, "float32")})["y"] == 1).all()


def with_a_default(slope: str = "float = 0.3") -> onnx.ModelProto:
    """A function whose attribute the file does not set, called by another function that does not either."""
    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
        net (float[1, 8] x) => (float[1, 8] y) {{ h = own.outer (x) y = own.act (h) }}
        <domain: "own", opset_import: ["" : 18, "own" : 1]>
        outer <slope> (x) => (z) {{ z = own.act <slope: float = @slope> (x) }}
        <domain: "own", opset_import: ["" : 18]>
        act <slope: {slope}> (x) => (z) {{ z = LeakyRelu <alpha: float = @slope> (x) }}"""
    )


def test_reference_and_network_know_the_defaults_of_a_files_functions(tmp_path: Path) -> None:
    model = loaded(with_a_default(), tmp_path)
    x = np.full((1, 8), -1, np.float32)
    np.testing.assert_allclose(reference_outputs(model, {"x": x})["y"], 0.09 * x, rtol=1e-6)
    assert_same(model, inputs={"x": x})
    assert seeded_reference(model).computed_from == "the file as it is given"


def test_reference_does_not_depend_on_preparing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever modernising does wrong, the reference is what onnxruntime says of the file."""

    def wrong(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
        copy = modernise(model, origin)
        if copy is model:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
        copy.graph.node[0].op_type = "Neg"
        return copy

    monkeypatch.setattr(prepare, "modernise", wrong)
    graph = graph_of(
        [helper.make_node("Abs", ["x"], ["y"])], [tensor_info("x", (4,))], [tensor_info("y", (4,))], {}
    )
    model = loaded(graph, tmp_path)
    x = np.array([-1, 2, -3, 4], np.float32)
    assert reference_outputs(model, {"x": x})["y"].tolist() == [1, 2, 3, 4]
    with pytest.raises(AssertionError):
        assert_same(model, inputs={"x": x})


def test_reports_why_onnxruntime_cannot_run_the_file(tmp_path: Path) -> None:
    add = helper.make_node("Add", ["x", "w"], ["y"], broadcast=1)
    weights = {"w": np.ones(4, np.float32)}
    graph = graph_of([add], [tensor_info("x", (1, 4))], [tensor_info("y", (1, 4))], weights, 6)
    reference = seeded_reference(loaded(graph, tmp_path))
    assert "brought to operators of today: onnxruntime cannot load it" in reference.computed_from
    assert reference.to_json()["computed_from"] == reference.computed_from


def sigmoid_in_a_function() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
        net (float[1, 8] x) => (float[1, 8] y) { y = own.act (x) }
        <domain: "own", opset_import: ["" : 18]>
        act (x) => (z) { h = Neg (x) z = Sigmoid (h) }"""
    )


def test_inlines_functions_with_substitutes_and_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(sigmoid_in_a_function(), tmp_path)
    x = np.full((1, 8), 30, np.float32)
    np.testing.assert_allclose(reference_outputs(model, {"x": x})["y"], 1 / (1 + np.exp(30)), rtol=1e-6)
    assert "its functions written out" in seeded_reference(model).computed_from
    monkeypatch.setattr(inliner, "inline_selected_functions", without_its_first_node)
    with pytest.raises(ToolchainError, match=r"writing its functions out changes .* output 'y' is off by"):
        reference_outputs(model, {"x": x})


def detector_in_a_function() -> onnx.ModelProto:
    """Boxes to 640 and scores to 1, joined, the scores by a function."""
    return onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
        net (float[1, 4, 8] x) => (float[1, 8, 8] y)
        <float stride = {640.0}> {
            b = Mul (x, stride)
            s = own.act (x)
            y = Concat <axis = 1> (b, s)
        }
        <domain: "own", opset_import: ["" : 18]>
        act (x) => (z) { h = Neg (x) g = Sigmoid (h) z = Celu (g) }"""
    )


def test_wrong_inlining_shows_in_a_small_part_of_an_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(detector_in_a_function(), tmp_path)
    monkeypatch.setattr(session, "is_judged_by_others", lambda _model: True)
    assert "written out, which onnxruntime computes alike" in seeded_reference(model).computed_from
    monkeypatch.setattr(inliner, "inline_selected_functions", with_a_hard_sigmoid)
    with pytest.raises(ToolchainError, match=r"writing its functions out changes .* part \[:, 4:8\]"):
        seeded_reference(model)


def with_a_hard_sigmoid(model: onnx.ModelProto, *_keys: object, **_options: object) -> onnx.ModelProto:
    flat = inliner.inline_local_functions(model)
    next(node for node in flat.graph.node if node.op_type == "Sigmoid").op_type = "HardSigmoid"
    return flat


def test_compares_forms_of_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proofs: list[str] = []

    def counted(*arguments: Any, **options: Any) -> str:
        proofs.append("")
        return check_alike(*arguments, **options)

    monkeypatch.setattr(session, "check_alike", counted)
    reference = session.ReferenceSession(loaded(sigmoid_in_a_function(), tmp_path), "--sample")
    with pytest.raises(UnusableSampleError):
        reference.outputs({"x": np.full((1, 8), np.nan, np.float32)})
    for value in (1, 2, 3):
        reference.outputs({"x": np.full((1, 8), value, np.float32)})
    assert len(proofs) == 2, "the first sample, whose outputs are NaN, proves nothing"
    assert reference.computed_from.count("computes alike") == 1


def without_its_first_node(model: onnx.ModelProto, _keys: object, **_options: object) -> onnx.ModelProto:
    flat = inliner.inline_local_functions(model)
    flat.graph.node[0].op_type = "Identity"
    return flat


@pytest.mark.slow
def test_integers_are_made_from_floats_that_are_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = loaded(classifier(), tmp_path, quantizer="mse")
    assert seeded_reference(right).computed_from == (
        "the file as it is given, in the integers of --quantizer mse, made from floats that are the file's"
    )

    def wrong(model: onnx.ModelProto, _origin: str) -> onnx.ModelProto:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        next(node for node in copy.graph.node if node.op_type == "Relu").op_type = "Tanh"
        return copy

    monkeypatch.setattr(prepare, "modernise", wrong)
    with pytest.raises(ToolchainError, match="preparing it changes what the network computes: output 'prob'"):
        loaded(classifier(), tmp_path, quantizer="mse")


def detector(classes: int = 4) -> onnx.ModelProto:
    """A convolution's channels as boxes to some 640 and scores to 1, joined."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(4 + classes, 3, 1, 1)).astype(np.float32),
        "stride": np.array(640, np.float32),
        "sizes": np.array([4, classes]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Split", ["c", "sizes"], ["fractions", "logits"], axis=1),
        helper.make_node("Mul", ["fractions", "stride"], ["pixels"]),
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node("Concat", ["pixels", "scores"], ["y"], axis=1),
    ]
    shapes = [tensor_info("x", (1, 3, 4, 4))], [tensor_info("y", (1, 4 + classes, 4, 4))]
    return graph_of(nodes, *shapes, weights)


def test_integers_of_floats_that_are_wrong_in_a_small_part_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = seeded_reference(loaded(detector(), tmp_path, quantizer="mse"))
    assert reference.computed_from.endswith("made from floats that are the file's")

    def wrong(model: onnx.ModelProto, _origin: str) -> onnx.ModelProto:
        return with_a_hard_sigmoid(model)

    monkeypatch.setattr(prepare, "modernise", wrong)
    with pytest.raises(ToolchainError, match=r"output 'y' is off by .* its part \[:, 4:8\]"):
        loaded(detector(), tmp_path, quantizer="mse")


def in_half(model: onnx.ModelProto) -> onnx.ModelProto:
    half: onnx.ModelProto = convert_float_to_float16(onnx.shape_inference.infer_shapes(model))
    return half


def test_parts_of_a_file_in_float16_are_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "modernise", lambda model, _origin: with_a_hard_sigmoid(model))
    with pytest.raises(ToolchainError, match=r"output 'y' is off by .* its part \[:, 4:8\]"):
        loaded(in_half(detector()), tmp_path, quantizer="mse")


@pytest.mark.parametrize("half", [True, False])
def test_rounding_of_float16_that_one_sample_amplifies_is_no_fault(
    half: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples_so_far = []

    def amplified(*arguments: Any, **_options: Any) -> str:
        samples_so_far.append(arguments)
        if len(samples_so_far) == 1:
            raise ToolchainError("amplified")
        return ""

    monkeypatch.setattr(load, "check_alike", amplified)
    if half:
        reference = seeded_reference(loaded(in_half(detector()), tmp_path, quantizer="mse"))
        assert reference.computed_from.endswith("made from floats that are the file's")
    else:
        with pytest.raises(ToolchainError, match="amplified"):
            loaded(detector(), tmp_path, quantizer="mse")

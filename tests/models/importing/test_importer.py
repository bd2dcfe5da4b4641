"""From a user's graph to Relax: names, old operator sets, outputs, and what is not supported."""

from __future__ import annotations

import resource
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.models.graphs import classifier, graph_of, tensor_info
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model, export_model, load_model
from toolchain.models.options import ModelOptions

OPTIONS = ModelOptions()


def load(folder: Path, model: onnx.ModelProto) -> Model:
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return load_model(str(path), OPTIONS)


@pytest.mark.parametrize("name", ["gpu_0/data_0", "1.x=y:0", "main", "größe"])
def test_any_input_name_is_kept(tmp_path: Path, name: str) -> None:
    model = load(tmp_path, classifier(name=name))
    assert [spec.name for spec in model.inputs] == [name]
    assert set(sample_inputs(model)) == {name}
    assert model.name == "net" and model.source == str(tmp_path / "net.onnx")


@pytest.mark.parametrize("where", ["input", "inside", "weight"])
def test_a_tensor_of_two_thousand_dimensions(tmp_path: Path, where: str) -> None:
    ones = [1] * 2000
    graph = graph_of(
        [helper.make_node("Reshape", ["x", "wide"], ["z"]), helper.make_node("Add", ["z", "w"], ["y"])],
        [tensor_info("x", ones if where == "input" else (1,))],
        [tensor_info("y", ones if where == "inside" else (1,))],
        {"wide": np.ones(2000 if where == "inside" else 1, np.int64)},
    )
    graph.graph.initializer.add(
        name="w", data_type=1, dims=ones if where == "weight" else [1], raw_data=np.float32(1).tobytes()
    )
    with pytest.raises(UsageError, match="2000"):
        load(tmp_path, graph)
    inspect_model(str(tmp_path / "net.onnx"), OPTIONS)


@pytest.mark.slow
def test_twenty_thousand_nodes_are_imported_in_bounded_time_and_memory(tmp_path: Path) -> None:
    """On an idle machine 4 s and 130 MiB; quadratic work would take hours."""
    names = ["x", *(f"y{number}" for number in range(20_000))]
    nodes = [
        helper.make_node("Relu" if number % 2 else "Neg", [before], [after])
        for number, (before, after) in enumerate(pairwise(names))
    ]
    graph = graph_of(nodes, [tensor_info("x", (2, 3))], [tensor_info(names[-1], (2, 3))], {})
    began, most = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = load(tmp_path, graph)
    assert model.outputs[0].shape == (2, 3)
    assert time.process_time() - began < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 1 << 20, "KiB"


def test_stored_tensors_listed_as_inputs_are_no_inputs(tmp_path: Path) -> None:
    graph = classifier(opset=8)
    graph.ir_version = 3
    stored = [tensor_info(tensor.name, tensor.dims) for tensor in graph.graph.initializer]
    graph.graph.input.extend(stored)
    model = load(tmp_path, graph)
    assert [spec.name for spec in model.inputs] == ["data"]
    assert len(model.module["main"].params) == 1
    assert reference_outputs(model, sample_inputs(model))["prob"].shape == (1, 5)


def test_two_outputs_of_one_name_are_refused(tmp_path: Path) -> None:
    graph = classifier()
    graph.graph.output.extend(list(graph.graph.output))
    with pytest.raises(UsageError, match=r"two of its outputs are called 'prob'"):
        load(tmp_path, graph)


def test_several_outputs_stay_in_order_and_probabilities_are_found(tmp_path: Path) -> None:
    extra = [
        helper.make_node("LogSoftmax", ["logits"], ["log"], "log"),
        helper.make_node("Softmax", ["logits"], ["across"], "across", axis=0),
        helper.make_node("Identity", ["prob"], ["same"], "same"),
        helper.make_node("Unsqueeze", ["prob", "axis"], ["wide"], "wide"),
        helper.make_node("Constant", [], ["axis"], value_ints=[2]),
    ]
    extra.insert(3, extra.pop())
    names = {"log": (1, 5), "across": (1, 5), "same": (1, 5), "wide": (1, 5, 1)}
    outputs = [tensor_info(name, shape) for name, shape in names.items()]
    model = load(tmp_path, classifier(extra=extra, extra_outputs=outputs))
    assert [spec.name for spec in model.outputs] == ["prob", *names]
    assert list(reference_outputs(model, sample_inputs(model))) == ["prob", *names]
    assert model.softmax_outputs == {"prob", "same"}


def test_an_operator_used_in_an_unsupported_way_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    extra = [
        helper.make_node("ReduceSum", ["prob"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["axis"], to=TensorProto.INT64),
        helper.make_node("CumSum", ["prob", "axis"], ["big"], "grow"),  # along which axis, the data say
    ]
    graph = classifier(extra=extra, extra_outputs=[tensor_info("big", (1, 5))])
    with pytest.raises(UsageError, match=r"net.onnx: unsupported use of CumSum \(node 'grow'\)"):
        load(tmp_path, graph)
    assert capfd.readouterr() == ("", "")


def test_an_output_whose_shape_depends_on_the_data_is_refused(tmp_path: Path) -> None:
    graph = classifier(
        extra=[helper.make_node("NonZero", ["prob"], ["where"], "where")],
        extra_outputs=[tensor_info("where", (2, "n"), TensorProto.INT64)],
    )
    with pytest.raises(UsageError, match=r"NonZero \(node 'where'\) makes a tensor whose shape depends"):
        load(tmp_path, graph)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[onnx.ModelProto, tuple[int, ...], tuple[int, ...]]:
    """Draw a convolution or dense layer; return it with its input and output shape."""
    batch, channels, units = (draw(st.integers(1, 4)) for _ in range(3))
    attributes: dict[str, Any]
    if draw(st.booleans()):
        side, kernel, stride = draw(st.integers(3, 9)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        shape: tuple[int, ...] = (batch, channels, side, side)
        weight = np.ones((units, channels, kernel, kernel), np.float32)
        extent = (side - kernel) // stride + 1
        out: tuple[int, ...] = (batch, units, extent, extent)
        operator, attributes = "Conv", {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
    else:
        shape, out = (batch, channels), (batch, units)
        weight = np.ones((units, channels), np.float32)
        operator, attributes = "Gemm", {"transB": 1}
    node = helper.make_node(operator, ["x", "w"], ["y"], "layer", **attributes)
    return graph_of([node], [tensor_info("x", shape)], [tensor_info("y", out)], {"w": weight}), shape, out


@pytest.mark.slow
@settings(max_examples=25)
@given(graphs())
def test_specs_survive_import_and_export(
    tmp_path: Path, drawn: tuple[onnx.ModelProto, tuple[int, ...], tuple[int, ...]]
) -> None:
    graph, shape, out = drawn
    model = load(tmp_path, graph)
    assert (model.inputs[0].shape, model.outputs[0].shape) == (shape, out)
    export_model(model.source, OPTIONS, tmp_path / "copy.onnx")
    again = load_model(str(tmp_path / "copy.onnx"), OPTIONS)
    assert (again.sha256, again.onnx) == (model.sha256, model.onnx)


def test_the_table_of_operators_is_what_the_import_has() -> None:
    from onnx import defs
    from tvm.relax.frontend.onnx import onnx_frontend

    from toolchain import tvm_compat
    from toolchain.models.importing.converters import CONVERTERS
    from toolchain.models.importing.importer import OF_MICROSOFT, OPERATORS

    theirs = {"If", *onnx_frontend._get_convert_map()}
    for opset in (7, defs.onnx_opset_version()):
        assert {*CONVERTERS, *(name for name in theirs if tvm_compat.onnx_converts(name, opset))} == OPERATORS
    assert OF_MICROSOFT <= OPERATORS

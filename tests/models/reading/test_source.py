"""Files that can't be read: one clear sentence, exit code 2, whatever is wrong with them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import classifier
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

OPTIONS = ModelOptions()


@pytest.mark.parametrize("name", ["zoo:nope", "nope", "zoo:", "a" * 3000])
def test_an_unknown_name_lists_the_zoo(name: str) -> None:
    with pytest.raises(UsageError, match=r"unknown model .*zoo:mobilenet, zoo:resnet-18, .*zoo:vgg-19"):
        load_model(name, OPTIONS)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a b.tflite", "python -m tf2onnx.convert --tflite '{path}' --output 'a b.onnx'"),
        ("net.pb", "tf2onnx.convert --graphdef {path} --inputs NAME:0"),
        ("net.pt", "torch.onnx.export(network, (example,), 'net.onnx', dynamo=True)"),
        ("net.pth", "torch.onnx.export(network, (example,), 'net.onnx', dynamo=True)"),
        ("net.pt2", "torch.onnx.export(torch.export.load('{path}'), (), 'net.onnx', dynamo=True)"),
        ("net.safetensors", "build the network and load them; then in the program"),
        ("net.h5", "keras.saving.load_model('{path}').export('net.onnx', format='onnx')"),
        ("net.keras", "keras.saving.load_model('{path}').export('net.onnx', format='onnx')"),
        ("net.pdmodel", "--model_filename net.pdmodel --params_filename net.pdiparams --save_file net.onnx"),
    ],
)
def test_another_frameworks_file_says_how_to_make_an_onnx_file_of_it(
    tmp_path: Path, name: str, says: str
) -> None:
    path = tmp_path / name
    with pytest.raises(UsageError, match="there is no file"):
        load_model(str(path), OPTIONS)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(UsageError, match="ONNX files are compiled") as caught:
        load_model(str(path), OPTIONS)
    assert caught.value.hint and says.format(path=path) in caught.value.hint
    assert str(path) in caught.value.message and caught.value.exit_code == 2


def test_an_onnx_file_may_be_called_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "net.pb"
    path.write_bytes(classifier().SerializeToString())
    assert load_model(str(path), OPTIONS).name == "net"


def test_a_folder_of_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(bytes(100))
    with pytest.raises(UsageError, match="a graph of TensorFlow") as caught:
        load_model(str(tmp_path), OPTIONS)
    assert f"--saved-model {tmp_path} --output" in str(caught.value.hint)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file .*gone.onnx"):
        load_model(str(tmp_path / "gone.onnx"), OPTIONS)
    with pytest.raises(UsageError, match="is a folder, not an"):
        load_model(str(tmp_path), OPTIONS)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\x08\x08", classifier().SerializeToString()[:-20], b"PK\x03\x04" + bytes(100)],
    ids=["empty", "text", "no graph", "truncated", "zip"],
)
def test_what_is_no_onnx_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    for step in (load_model, inspect_model):
        with pytest.raises(UsageError, match=r"net.onnx.* not an ONNX file"):
            step(str(path), OPTIONS)


@pytest.mark.slow
def test_broken_bytes_never_give_a_traceback(tmp_path: Path) -> None:
    """Changes bytes of a good file: each result is a model or one clear sentence."""
    path = tmp_path / "net.onnx"
    good = classifier().SerializeToString()
    generator = np.random.default_rng(7)
    outcomes = {"loaded": 0, "refused": 0}
    for _ in range(300):
        content = bytearray(good)
        for _ in range(generator.choice((1, 1, 4))):
            content[generator.integers(len(content))] = generator.integers(256)
        path.write_bytes(content)
        try:
            load_model(str(path), OPTIONS)
            outcomes["loaded"] += 1
        except UsageError as error:
            assert str(path) in error.message and "\n" not in error.message
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 30


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """Return a model that keeps its weights in `weights.bin` beside it."""
    path = tmp_path / "net.onnx"
    onnx.save(classifier(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data_is_read_and_part_of_the_hash(external: Path) -> None:
    model = load_model(str(external), OPTIONS)
    inputs = sample_inputs(model)
    plain = external.with_name("plain.onnx")
    onnx.save(classifier(), plain)
    expected = reference_outputs(load_model(str(plain), OPTIONS), inputs)["prob"]
    np.testing.assert_array_equal(reference_outputs(model, inputs)["prob"], expected)
    weights = external.with_name("weights.bin")
    content = bytearray(weights.read_bytes())
    content[0] ^= 1
    weights.write_bytes(content)
    assert load_model(str(external), OPTIONS).sha256 != model.sha256


def test_missing_external_data(external: Path) -> None:
    external.with_name("weights.bin").unlink()
    with pytest.raises(UsageError, match=r"weights.bin cannot be read: No such file"):
        load_model(str(external), OPTIONS)


def test_truncated_external_data(external: Path) -> None:
    weights = external.with_name("weights.bin")
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(UsageError, match=r"external data weights.bin is truncated or foreign: tensor"):
        load_model(str(external), OPTIONS)


@pytest.mark.parametrize(
    ("location", "says"),
    [("we\0ights", "is no name of a file"), ("w" * 5000, "File name too long"), ("a/../../b", "outside")],
)
def test_external_data_with_a_name_that_no_file_has(external: Path, location: str, says: str) -> None:
    model = onnx.load(external, load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.external_data[0].value = location
    external.write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match=says) as caught:
        load_model(str(external), OPTIONS)
    assert len(str(caught.value)) < 1500 and str(caught.value).isprintable()


@pytest.mark.parametrize(("offset", "length"), [("-4", None), ("99999999", None), ("0", "99"), ("x", None)])
def test_external_data_with_wrong_places(external: Path, offset: str, length: str | None) -> None:
    model = onnx.load(external, load_external_data=False)
    tensor = model.graph.initializer[0]
    del tensor.external_data[:]
    for key, value in {"location": "weights.bin", "offset": offset, "length": length}.items():
        if value is not None:
            tensor.external_data.add(key=key, value=value)
    external.write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match=r"weights\.bin"):
        load_model(str(external), OPTIONS)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "link/weights.bin", ""])
def test_external_data_outside_the_folder_is_refused(external: Path, location: str) -> None:
    folder = external.parent / "inner"
    folder.mkdir()
    (folder / "link").symlink_to(external.parent)
    model = onnx.load(external, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UsageError, match="lies outside the folder of the model"):
        load_model(str(path), OPTIONS)


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
def test_what_would_be_read_for_ever_is_no_external_data(external: Path, kind: str) -> None:
    weights = external.with_name("weights.bin")
    weights.unlink()
    if kind == "pipe":
        os.mkfifo(weights)
    elif kind == "folder":
        weights.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(weights))
    with pytest.raises(UsageError, match=r"weights.bin cannot be read: "):
        load_model(str(external), OPTIONS)


def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="it is a pipe, not a plain file"):
        load_model(str(tmp_path / "net.onnx"), OPTIONS)


def doubling(depth: int) -> onnx.ModelProto:
    """Return a model whose function calls one twice, which calls one twice, and so on."""
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "f0", "x", "y", [helper.make_node("Relu", "x", "y")], sets)]
    for each in range(1, depth):
        twice = [helper.make_node(f"f{each - 1}", a, b, domain="own") for a, b in ("xt", "ty")]
        functions.append(helper.make_function("own", f"f{each}", "x", "y", twice, sets))
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in "xy"]
    call = helper.make_node(f"f{depth - 1}", "x", "y", domain="own")
    graph = helper.make_graph([call], "doubling", ends[:1], ends[1:])
    return helper.make_model(graph, functions=functions, opset_imports=sets, ir_version=8)


def test_functions_that_would_fill_any_memory_are_counted_first(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(doubling(6), path)
    assert len(inspect_model(str(path), OPTIONS)["operators"]) == 1
    onnx.save(doubling(40), path)
    assert path.stat().st_size < 3000
    with pytest.raises(UsageError, match="with its functions written out it has 549755813888 nodes"):
        load_model(str(path), OPTIONS)


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    model = doubling(2)
    model.functions[0].node[0].op_type = "f1"
    model.functions[0].node[0].domain = "own"
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="its function 'f1' calls itself"):
        load_model(str(tmp_path / "net.onnx"), OPTIONS)


@pytest.mark.parametrize(
    ("dims", "position", "says"),
    [([1] * 2000, 0, "2000"), ([2**40], 0, "it would have"), ([4], 9, "out of")],
)
def test_a_sparse_tensor_that_is_broken(tmp_path: Path, dims: list[int], position: int, says: str) -> None:
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:])
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", onnx.TensorProto.INT64, [1], [position])
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, dims))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(UsageError, match=f"(?i)sparse tensor .*{says}"):
        load_model(str(tmp_path / "net.onnx"), OPTIONS)


def test_sizes_that_no_file_holds(tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2**62] * 20) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    assert inspect_model(str(tmp_path / "net.onnx"), OPTIONS)["flops"] > 10**308
    model.graph.initializer.append(
        onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2**62] * 300)
    )
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="tensor 'w' is broken"):
        inspect_model(str(tmp_path / "net.onnx"), OPTIONS)

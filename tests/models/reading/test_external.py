"""Weights in files beside the network: read, or one clear sentence."""

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
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.reading.network_file import NetworkFile
from toolchain.models.reading.onnx_file import read_external_data

OPTIONS = ModelOptions()


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
def test_refuses_pipe_as_external_data(external: Path, kind: str) -> None:
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


def stored_at(*places: tuple[str, str, int | None]) -> onnx.ModelProto:
    """Return a graph with a float32 tensor of two elements for each location, offset and length."""
    graph = helper.make_graph([], "g", [], [])
    for number, (location, offset, length) in enumerate(places):
        tensor = graph.initializer.add(name=f"t{number}", data_type=onnx.TensorProto.FLOAT, dims=[2])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entries = {"location": location, "offset": offset, "length": None if length is None else str(length)}
        for key, value in entries.items():
            if value is not None:
                tensor.external_data.add(key=key, value=value)
    return helper.make_model(graph)


def test_tensors_of_one_file_are_taken_from_their_places_and_files_are_listed_in_order(
    tmp_path: Path,
) -> None:
    numbers = np.arange(6, dtype=np.float32)
    (tmp_path / "b.bin").write_bytes(numbers.tobytes())
    (tmp_path / "a.bin").write_bytes(numbers[:2].tobytes())
    model = stored_at(("b.bin", "16", 8), ("a.bin", "0", None), ("b.bin", "0", 8))
    file = NetworkFile(tmp_path / "net.onnx", b"")
    read_external_data(model, file)
    assert sorted(file.companions.items()) == [("a.bin", numbers[:2].tobytes()), ("b.bin", numbers.tobytes())]
    arrays = [onnx.numpy_helper.to_array(tensor).tolist() for tensor in model.graph.initializer]
    assert arrays == [[4, 5], [0, 1], [0, 1]]
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    again = NetworkFile(tmp_path / "net.onnx", b"")
    read_external_data(model, again)
    assert again.companions == {}, "nothing is left to read"


@pytest.mark.parametrize(
    ("offset", "length", "says"),
    [
        ("4", 8, "needs 8 bytes from 4, the file has 8"),
        ("0", 4, "truncated or foreign"),
        ("-8", 8, "needs 8 bytes from -8"),
        ("1e3", 8, "broken entry for w.bin"),
        ("9" * 5000, 8, "broken entry for w.bin"),
    ],
)
def test_a_place_that_the_file_does_not_have(tmp_path: Path, offset: str, length: int, says: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    with pytest.raises(UsageError, match=says):
        read_external_data(stored_at(("w.bin", offset, length)), NetworkFile(tmp_path / "net.onnx", b""))


def test_a_type_that_onnx_does_not_know_is_named(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    model = stored_at(("w.bin", "0", 8))
    model.graph.initializer[0].data_type = 99
    with pytest.raises(UsageError, match="tensor 't0' has a broken entry"):
        read_external_data(model, NetworkFile(tmp_path / "net.onnx", b""))


def test_a_link_inside_the_folder_and_a_folder_below_are_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(bytes(8))
    (tmp_path / "link.bin").symlink_to("data/w.bin")
    model = stored_at(("data/w.bin", "0", 8), ("link.bin", "0", 8))
    file = NetworkFile(tmp_path / "net.onnx", b"")
    read_external_data(model, file)
    assert sorted(file.companions) == ["data/w.bin", "link.bin"]


def stored_beside(name: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=[4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    return tensor


@pytest.mark.parametrize("where", ["function", "sparse"])
def test_no_weight_comes_from_the_current_folder(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, beside = tmp_path / "here", tmp_path / "beside"
    for folder, value in ((here, 7), (beside, 1)):
        folder.mkdir()
        (folder / "w.bin").write_bytes(np.full(4, value, np.float32).tobytes())
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy")
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    if where == "function":
        inner = [
            helper.make_node("Constant", [], ["w"], value=stored_beside("w")),
            helper.make_node("Mul", ["a", "w"], ["b"]),
        ]
        nodes = [helper.make_node("Scaled", ["x"], ["y"], domain="own")]
        functions = [helper.make_function("own", "Scaled", ["a"], ["b"], inner, sets[:1])]
        model = helper.make_model(
            helper.make_graph(nodes, "g", [x], [y]), opset_imports=sets, functions=functions, ir_version=8
        )
    else:
        graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [x], [y])
        places = helper.make_tensor("w_places", onnx.TensorProto.INT64, [4], [0, 1, 2, 3])
        graph.sparse_initializer.append(helper.make_sparse_tensor(stored_beside("w"), places, [4]))
        model = helper.make_model(graph, opset_imports=sets[:1], ir_version=8)
    (beside / "net.onnx").write_bytes(model.SerializeToString())
    monkeypatch.chdir(here)
    read = load_model(str(beside / "net.onnx"), OPTIONS)
    given = {"x": np.ones(4, np.float32)}
    np.testing.assert_array_equal(reference_outputs(read, given)["y"], np.ones(4))
    (beside / "w.bin").write_bytes(np.full(4, 2, np.float32).tobytes())
    again = load_model(str(beside / "net.onnx"), OPTIONS)
    assert again.sha256 != read.sha256

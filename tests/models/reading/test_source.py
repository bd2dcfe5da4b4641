"""Files that can't be read: one clear sentence, exit code 2, whatever is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import classifier
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

OPTIONS = ModelOptions()


@pytest.mark.parametrize("name", ["zoo:nope", "nope", "zoo:", "a" * 3000])
def test_an_unknown_name_lists_the_zoo(name: str) -> None:
    with pytest.raises(UsageError, match=r"unknown model .*zoo:mobilenet, zoo:resnet-18, .*zoo:vgg-19"):
        load_model(name, OPTIONS)


def test_an_onnx_file_may_be_called_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "net.pb"
    path.write_bytes(classifier().SerializeToString())
    assert load_model(str(path), OPTIONS).name == "net"


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
def test_refuses_other_content(tmp_path: Path, content: bytes) -> None:
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


def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="it is a pipe, not a plain file"):
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

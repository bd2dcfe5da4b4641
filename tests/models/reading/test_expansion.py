"""Functions of a file's own: counted before they are written out."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

OPTIONS = ModelOptions()


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

"""Functions of a file's own: counted before they are written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.validity import check_expansion

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


def test_a_chain_of_calls_too_deep_for_the_stack_is_refused() -> None:
    """Each function calls the next, once: few nodes, many calls inside one another."""
    sets = [helper.make_opsetid("own", 1)]
    calls = [helper.make_node(f"f{each + 1}", "x", "y", domain="own") for each in range(5000)]
    model = doubling(1)
    functions = [
        helper.make_function("own", f"f{each}", "x", "y", [call], sets) for each, call in enumerate(calls)
    ]
    del model.functions[:]
    model.functions.extend(functions)
    with pytest.raises(UsageError, match="is the 200th of a chain of calls"):
        check_expansion(model, "net.onnx")


def test_a_chain_that_returns_to_its_beginning_is_refused() -> None:
    model = doubling(3)
    model.functions[0].node[0].op_type, model.functions[0].node[0].domain = "f2", "own"
    with pytest.raises(UsageError, match="'f2' calls itself"):
        check_expansion(model, "net.onnx")


def test_calls_inside_branches_count() -> None:
    model = doubling(20)
    call = model.graph.node[0]
    branch = helper.make_graph([call], "branch", [], [onnx.ValueInfoProto(name="y")])
    choice = helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    model.graph.node[0].CopyFrom(choice)
    with pytest.raises(UsageError, match=f"it has {1 + 2 * 2**19} nodes"):
        check_expansion(model, "net.onnx")


def test_overloads_are_functions_of_their_own() -> None:
    """Of one name, one that doubles and one that calls the first: no call of itself."""
    model = doubling(2)
    model.functions[1].name, model.functions[1].overload = "f0", "twice"
    model.graph.node[0].op_type, model.graph.node[0].overload = "f0", "twice"
    check_expansion(model, "net.onnx")


def test_few_nodes_of_many_bytes_are_refused() -> None:
    model = doubling(15)
    large = onnx.numpy_helper.from_array(np.zeros(20_000, np.float32))
    model.functions[0].node[0].CopyFrom(helper.make_node("Constant", [], ["y"], value=large))
    with pytest.raises(UsageError, match=f"it has {2**14} nodes in 1[0-9]{{9}} bytes"):
        check_expansion(model, "net.onnx")

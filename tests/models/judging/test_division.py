"""The least integer divided by -1, by which onnxruntime would end this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import loaded
from toolchain.models.judging.reference import reference_outputs


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("operator", "opset", "attributes", "due"),
    [
        ("Div", 7, {}, ["least", 3, -3]),
        ("Div", 17, {}, ["least", 3, -3]),
        ("Mod", 10, {}, [0, 1, -1]),
        ("Mod", 17, {"fmod": 1}, [0, 1, 1]),
    ],
)
def test_least_integer_divided_by_minus_one_wraps(
    dtype: type[np.signedinteger],
    operator: str,
    opset: int,
    attributes: dict[str, int],
    due: list[object],
    tmp_path: Path,
) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [  # the file tells no type of what is divided
        helper.make_node("Mul", ["x", "one"], ["a"]),
        helper.make_node(operator, ["a", "d"], ["b"], **attributes),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.INT64),
    ]
    infos = [tensor_info(name, (3,), code) for name in "xd"]
    outputs = [tensor_info("y", (3,), TensorProto.INT64)]
    graph = graph_of(nodes, infos, outputs, {"one": np.array(1, dtype)}, opset)
    least = np.iinfo(dtype).min
    given = {"x": np.array([least, 7, 7], dtype), "d": np.array([-1, 2, -2], dtype)}
    found = reference_outputs(loaded(graph, tmp_path), given)["y"]
    assert found.tolist() == [least if each == "least" else each for each in due]

"""Networks of many functions, no two of which are alike."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.growth.command import cost

_CLASS = "x86_64"
_OPSET, _IR = 17, 8


def rows(given: argparse.Namespace) -> Iterator[Mapping[str, str]]:
    """Yield a row for each size; the cache is empty before the first build of each."""
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            file = folder / "network.onnx"
            _write(file, size)
            environment = {"TOOLCHAIN_CACHE_DIR": f"{text}/cache", "TOOLCHAIN_DATA_DIR": f"{text}/data"}
            board = ["--board", _CLASS]
            on = [*board, "--engine", "host"]
            listed = cost(["tasks", str(file), *board], environment)
            row = {"functions": str(size), "tasks": str(listed), "of each": f"{listed.cpu_s / size:.3f}"}
            if size <= given.build_up_to:
                cold = cost(["build", str(file), *on, "-o", f"{text}/out"], environment)
                warm = cost(["build", str(file), *on, "-o", f"{text}/again"], environment)
                row |= {"build, cold": str(cold), "of each, cold": f"{cold.cpu_s / size:.2f}"}
                row |= {"build, warm": str(warm), "of each, warm": f"{warm.cpu_s / size:.3f}"}
            yield row


def _write(file: Path, functions: int) -> None:
    """Write a chain of convolutions, one after the other with another number of channels."""
    draw = np.random.default_rng(1)
    nodes, weights, channels = [], [], 8
    for number in range(functions):
        wider = 8 + number + 1
        weight = (draw.standard_normal((wider, channels, 1, 1)) / channels**0.5).astype(np.float32)
        weights.append(
            helper.make_tensor(f"w{number}", TensorProto.FLOAT, weight.shape, weight.tobytes(), raw=True)
        )
        source = "x" if number == 0 else f"r{number - 1}"
        result = "y" if number == functions - 1 else f"r{number}"
        nodes.append(helper.make_node("Conv", [source, f"w{number}"], [f"c{number}"]))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [result]))
        channels = wider
    graph = helper.make_graph(
        nodes,
        "growing",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, channels, 8, 8])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR), file)

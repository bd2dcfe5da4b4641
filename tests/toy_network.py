"""A network of two products, and a class of boards that have the toy for a device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.models.graphs import graph_of, tensor_info

BOARD = """description = "PC"
triple = "x86_64-unknown-linux-gnu"
glibc = "2.27"
memory_mib = 2048

[[clusters]]
cpu = "x86-64-v3"
cores = 2

[[devices]]
kind = "cpu"

[[devices]]
kind = "toy"
most_rows = 8
"""


def write_project(folder: Path) -> None:
    """Write `small.onnx`, and what a command needs to tune it for the toy, into the folder it runs in."""
    (folder / "toolchain.toml").touch()
    (folder / "boards" / "x86_64").mkdir(parents=True)
    (folder / "boards" / "x86_64" / "board.toml").write_text(BOARD)
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((64, 64)).astype(np.float32) / 8 for name in "ab"}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Softmax", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    ends = [[tensor_info(name, (16, 64))] for name in "xy"]
    onnx.save(graph_of(nodes, ends[0], ends[1], weights), folder / "small.onnx")

"""`toolchain model`."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

from tests.cli.bad_models import MODELS
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.measuring.small_network import INPUT
from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.preparing.test_cutting import detector
from toolchain.models.zoo import ZOO


def test_list_names_the_zoo(invoke: Toolchain) -> None:
    rows = invoke("model", "list", "--json").document
    assert [row["name"] for row in rows] == [f"zoo:{name}" for name in ZOO]
    assert all(f"zoo:{name}" in invoke("model", "list").out for name in ZOO)


@pytest.mark.slow
def test_an_exported_network_is_the_same_network(invoke: Toolchain, folder: Path) -> None:
    exported = invoke("model", "export", "squeezenet_v1.1", "-o", "mine.onnx", "--json").document
    assert exported == {"file": str(folder / "mine.onnx"), "quantising": None}
    zoo = invoke("model", "inspect", "zoo:squeezenet_v1.1", "--json").document
    mine = invoke("model", "inspect", "mine.onnx", "--json").document
    for key in ("inputs", "outputs", "operators", "parameters", "flops", "sha256"):
        assert mine[key] == zoo[key]
    assert mine["sha256"] == hashlib.sha256((folder / "mine.onnx").read_bytes()).hexdigest()


@pytest.mark.slow
def test_inspect_shows_inputs_and_operators(invoke: Toolchain) -> None:
    ran = invoke("model", "inspect", "mobilenet", "--batch", "1")
    assert ran.code == 0
    assert "data [1, 3, 224, 224] float32" in ran.out and "Conv" in ran.out and "1.137 GFLOP" in ran.out


def test_inspect_shows_a_network_whose_shapes_are_open(invoke: Toolchain, folder: Path) -> None:
    onnx.save(classifier(shape=("batch", 3, "height", None)), folder / "open.onnx")
    ran = invoke("model", "inspect", "open.onnx")
    assert ran.code == 0
    assert "input   data ['batch', 3, 'height', '?'] float32" in ran.out
    assert "FLOPs unknown" in ran.out and "Conv" in ran.out


WORDS = Path(__file__).parents[2] / "data" / "exporters" / "torchscript_words.onnx"
"""Its batch and its length are open; it makes a mask by ConstantOfShape."""


@pytest.mark.slow
def test_inspect_blames_no_node_for_a_shape_that_is_open(invoke: Toolchain) -> None:
    ran = invoke("model", "inspect", str(WORDS))
    assert ran.code == 0 and "cannot be compiled" not in ran.out and "can be compiled up to" not in ran.out
    *_, undecided, given = ran.out.splitlines()
    assert undecided.startswith("not known before --shape: whether ConstantOfShape (node '/ConstantOfShape')")
    assert given == "shapes are open: give them to every command, such as --shape ids=1,D with numbers for D"
    found = invoke("model", "inspect", str(WORDS), "--json").document
    assert (found["data_dependent"], found["cut"], found["open"]) == ([], [], ["ids=1,D"])
    whole = invoke("model", "inspect", str(WORDS), "--shape", "ids=1,7")
    assert whole.code == 0 and "--shape" not in whole.out and "cannot be compiled" not in whole.out


def test_inspect_shows_each_name_on_one_line(invoke: Toolchain, folder: Path) -> None:
    node = helper.make_node("No\nsuch", ["x\ny"], ["z\nz"], "no\nde", domain="com.some\none")
    values = [tensor_info(name, ("ba\ntch", 4)) for name in ("x\ny", "z\nz")]
    onnx.save(graph_of([node], values[:1], values[1:], {}), folder / "lines.onnx")
    lines = invoke("model", "inspect", "lines.onnx").out.splitlines()
    assert lines[:2] == [
        f"{kind:<8}{name} ['ba\\ntch', 4] float32" for kind, name in (("input", "x\\ny"), ("output", "z\\nz"))
    ]
    starts = (
        "input",
        "output",
        "sha256",
        "0 param",
        "OPERATOR",
        "No\\nsuch",
        "cannot be compiled",
        "shapes are",
    )
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


def test_inspect_says_what_no_shape_can_help(invoke: Toolchain, folder: Path) -> None:
    """Places of values above 0 depend on the data; those of ones that a shape makes follow from it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["ones"], value=from_array(np.ones(1, "float32"))),
        helper.make_node("NonZero", ["ones"], ["everywhere"], "all"),
        helper.make_node("NonZero", ["x"], ["places"], "some"),
        helper.make_node("Add", ["everywhere", "places"], ["y"]),
    ]
    y = tensor_info("y", (2, None), TensorProto.INT64)
    onnx.save(graph_of(nodes, [tensor_info("x", ("n", 4))], [y], {}), folder / "open.onnx")
    ran = invoke("model", "inspect", "open.onnx")
    assert "cannot be compiled: NonZero (node 'some') makes a tensor whose shape depends" in ran.out
    assert "not known before --shape: " in ran.out and "NonZero (node 'all') can be compiled" in ran.out
    whole = invoke("model", "inspect", "open.onnx", "--shape", "x=3,4")
    assert "node 'some'" in whole.out and "node 'all'" not in whole.out


def test_inspect_shows_where_a_network_can_be_cut(invoke: Toolchain, folder: Path) -> None:
    onnx.save(detector(), folder / "d.onnx")
    ran = invoke("model", "inspect", "d.onnx", "--shape", "size=1,4")
    assert "cannot be compiled: NonMaxSuppression (node 'nms') makes a tensor" in ran.out
    assert "can be compiled up to these tensors: --outputs boxes,scores,mean" in ran.out


@pytest.mark.parametrize(("model", "code", "says"), MODELS, ids=[row[0] for row in MODELS])
def test_refuses_unusable_models(
    invoke: Toolchain, files: Path, model: str, code: int, says: list[str]
) -> None:
    refused(invoke, files, code, says, "model", "inspect", model)


NAMES = [
    (["model", "inspect", "good.onnx", "--shape", f"{INPUT}=1,3,8,8"], ["--shape", INPUT]),
    (["model", "inspect", "good.onnx", "--shape", "x"], ["--shape x", "NAME=D,D"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_refuses_unknown_names_and_bad_options(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *arguments)


@pytest.mark.slow
def test_full_disk_is_reported(files: Path) -> None:
    """A limit on the size of files stands for the disk: the same error of write(2), for root as well."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))

    before = [path for path in files.rglob("*") if path.is_file()]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "toolchain",
            "model",
            "export",
            "squeezenet_v1.1",
            "-o",
            "out/mine.onnx",
            "--json",
        ],
        cwd=files,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert "cannot write out/mine.onnx: File too large" in error["message"] and error["hint"]
    assert [path for path in files.rglob("*") if path.is_file()] == before


@pytest.mark.slow
def test_an_exported_network_may_be_in_integers(invoke: Toolchain, folder: Path) -> None:
    ran = invoke("model", "export", "squeezenet_v1.1", "--dtype", "int8", "-o", "int8.onnx")
    assert ran.code == 0 and "scales: mse, calibrated with 4 random inputs" in ran.out
    assert "integers: 26 convolutions, 8 concatenations; output SQNR" in ran.out
    operators = {node.op_type for node in onnx.load(folder / "int8.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} < operators and "Relu" not in operators

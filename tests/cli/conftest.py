"""The small network as commands are given it: built, and as files of which some are broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from toolchain.bundles.read import Bundle


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    """Return the small network built for this host and for rk3399."""
    from tests.measuring.small_network import built

    return {board: built(board, tmp_path_factory.mktemp(board)) for board in ("local", "rk3399")}


@pytest.fixture
def files(folder: Path) -> Path:
    """Return the commands' folder, with networks and arrays, good and bad ones."""
    import onnx
    from onnx import TensorProto, helper

    from tests.measuring.small_network import network

    good = network(folder / "good.onnx").read_bytes()
    (folder / "truncated.onnx").write_bytes(good[: len(good) // 2])
    (folder / "text.onnx").write_text("this is a letter\n")
    (folder / "empty.onnx").touch()
    (folder / "program.pt2").touch()
    model = onnx.load(folder / "good.onnx")
    onnx.save(
        model, folder / "external.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (folder / "weights.bin").unlink()
    nodes = [
        helper.make_node("Volume", ["x"], ["y"], "volume", domain="mine"),
        helper.make_node("Tidy", ["x"], ["t"], "tidy", domain="mine"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 3])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "yt"]
    graph = helper.make_graph(nodes, "odd", inputs, outputs)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    odd = helper.make_model(graph, opset_imports=sets, ir_version=8)
    onnx.save(odd, folder / "odd.onnx")
    np.save(folder / "good.npy", np.zeros((1, 3, 16, 16), np.float32))
    np.save(folder / "shape.npy", np.zeros((1, 3, 8, 8), np.float32))
    np.save(folder / "dtype.npy", np.zeros((1, 3, 16, 16), np.float64))
    np.save(folder / "objects.npy", np.array([None]), allow_pickle=True)
    (folder / "text.npy").write_text("1 2 3")
    return folder


@pytest.fixture
def toy(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the commands' folder, with a network, boards that have the toy, and records of its own."""
    from tests import plugins
    from tests.toy_network import write_project

    plugins.install(tmp_path / "plugins", monkeypatch, toy="edge_toy.kind:TOY")
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
    write_project(folder)
    yield folder
    plugins.forget()

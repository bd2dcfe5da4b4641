"""`tune --device cuda` on the emulated driver: packed code, and NHWC by MetaSchedule's rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import local_board
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.records.store import RecordStore
from toolchain.tasks.options import CodeOptions
from toolchain.testbeds.cuda import ensure_emulated_cuda
from toolchain.tuning.events import Event, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run import tune as module

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
SHAPE = (1, 16, 8, 8)


@pytest.fixture
def convolution(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype(np.float32) / 12
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    graph = graph_of(nodes, [tensor_info("x", SHAPE)], [tensor_info("y", SHAPE)], {"w": weight})
    onnx.save(graph, tmp_path / "convolution.onnx")
    return tmp_path / "convolution.onnx"


@pytest.mark.parametrize("layout", ["auto", "NHWC"])
def test_records_are_those_of_the_gpu(
    layout: str, convolution: Path, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGE_CUDA_DRIVER", str(ensure_emulated_cuda()))
    # Two builds of the network, and their times, are tested where a CPU computes.
    monkeypatch.setattr(module, "obstacle_to_network", lambda *_arguments, **_options: "not here")
    board, events = local_board(), list[Event]()
    backend = backend_for(board.profile, CodeOptions(device="cuda", arch="emulated", layout=layout))
    how = TuneOptions(trials=2, heaviest=1, repeat=1, min_repeat_ms=1, threads=1, builders="1")
    model = load_model(str(convolution), ModelOptions())
    result = module.tune(model, backend, [board], store, how, events.append)
    said = result.to_json()
    assert (said["trials"], said["failed"], said["caches_flushed"]) == (2, 0, False)
    records = store.of_run(result.run)
    assert {record.key.device for record in records} == {"cuda:emulated"}
    assert {record.provenance.conditions for record in records} == {None}
    assert [event.stage for event in events if isinstance(event, Trial)] == ["default", "search", "search"]

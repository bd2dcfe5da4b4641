"""A VTA through the lab, by the simulation: an emulated pynq measures candidates, and computes networks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm

from tests.e2e.test_vta import BLOCKS, EXACT
from tests.models.quantising.networks import network
from toolchain.backends.table import backend_for
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.rpc.session import open_session
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.events import Event, Notice, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.tune import tune

pytestmark = pytest.mark.slow

CODE = CodeOptions(device="vta:sim", dtype="int8")
_LONGEST_S = 600.0  # for one inference, simulated under an emulator that has much else to do


@pytest.fixture
def board(state: Path) -> Iterator[Board]:
    """Yield an emulated pynq that a lab of this test's own finds."""
    assert not state.exists()
    yield emulated.start("pynq", kind="process", name="through-the-lab")
    emulated.stop("through-the-lab")


@pytest.fixture
def small(tmp_path: Path) -> Model:
    """Return three convolutions and a residual."""
    onnx.save(network(BLOCKS), tmp_path / "net.onnx")
    return load_model(str(tmp_path / "net.onnx"), ModelOptions(quantizer="power-of-two"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as opened:
        yield opened


def test_an_emulated_pynq_measures_candidates(board: Board, small: Model, store: RecordStore) -> None:
    events: list[Event] = []
    how = TuneOptions(trials=3, runner="boards", tuner="random", repeat=1)
    result = tune(small, backend_for(board.profile, CODE), [board], store, how, events.append)
    document = result.to_json()
    assert (document["trials"], document["failed"], result.boards) == (3, 0, {board.name: 3})
    assert {event.board for event in events if isinstance(event, Trial)} == {board.name}
    assert all(task.modelled for task in result.tasks), "nothing was measured: it is a simulation"
    assert all(record.provenance.modelled for record in store.all())
    assert {record.key.device for record in store.all()} == {"vta:1x16_i8w8a32_15_15_18_17"}
    said = [event.text for event in events if isinstance(event, Notice)]
    assert not result.network and not any("may mislead" in text for text in said)


def test_a_network_runs_through_the_lab(board: Board, small: Model, tmp_path: Path) -> None:
    computed(small, board, tmp_path)


@pytest.mark.full
def test_resnet_18_runs_through_the_lab(board: Board, tmp_path: Path) -> None:
    computed(load_model("zoo:resnet-18", ModelOptions(quantizer="global-scale")), board, tmp_path)


def computed(model: Model, board: Board, folder: Path) -> None:
    """Build a network, run its library in a session, and hold it against what `verify` expects."""
    built = build(model, find_target(board.profile.name), None, folder / "out", BuildOptions(code=CODE))
    bundle = read_bundle(built.bundle)
    (folder / "net.so").write_bytes(bundle.library)
    for name, got in through_the_lab(bundle, board, folder / "net.so").items():
        wanted = bundle.expected[name]
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() < EXACT * max(1.0, np.abs(wanted).max())


def through_the_lab(bundle: Bundle, board: Board, library: Path) -> dict[str, np.ndarray]:
    """Return the outputs of a bundle's sample, of a session with a board."""
    with lab.join([board]) as there:
        session = open_session(there.host, there.port, board.tracker_key, _LONGEST_S, 60.0)
        session.get_function("edge.vta.use")("sim")
        session.upload(str(library))
        machine = tvm.relax.VirtualMachine(session.load_module(library.name), session.cpu())
        sample = [bundle.sample[tensor.name] for tensor in bundle.manifest.inputs]
        machine.set_input("main", *(tvm.runtime.tensor(value, session.cpu()) for value in sample))
        machine.invoke_stateful("main")
        found = machine.get_outputs("main")
        tensors = [found] if len(bundle.manifest.outputs) == 1 else list(found)
        outputs = zip(bundle.manifest.outputs, tensors, strict=True)
        return {output.name: tensor.numpy() for output, tensor in outputs}

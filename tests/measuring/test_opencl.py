"""A bundle that needs an OpenCL device, on this host with PoCL, and where its driver is broken."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import Toolchain
from tests.opencl.pocl import NAMES
from tests.runtime import networks, opencl_network
from tests.runtime.stub_drivers import stub
from toolchain.boards.board import Board
from toolchain.boards.edge_rt import install
from toolchain.boards.edge_rt.status import status
from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.bundles.manifest import RuntimeNeeds, Tensor
from toolchain.bundles.read import Bundle
from toolchain.errors import UsageError
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.execution import OnBoard, Sampling
from toolchain.measuring.verify import verify_bundle

pytestmark = pytest.mark.slow

OLD = """#!/bin/sh
[ "$2" = --devices ] && { echo '{"error": {}}'; exit 2; }
echo '{"version": "0.0.9"}'
"""
SetEnvironment = Callable[..., None]


@pytest.fixture(scope="module")
def for_opencl(for_local: Bundle) -> Bundle:
    """Return the network `dense` of edge-rt's tests as a bundle for OpenCL."""
    generator = np.random.default_rng(0)
    x, bias = generator.standard_normal((4, 8), "float32"), generator.standard_normal(16, "float32")
    outputs = networks.dense(x, bias)
    expected = dict(zip(("hidden", "y"), outputs, strict=True))
    sample = {"x": x, "bias": bias}

    def tensors(arrays: dict[str, np.ndarray]) -> tuple[Tensor, ...]:
        return tuple(Tensor(name=name, shape=a.shape, dtype="float32") for name, a in arrays.items())

    manifest = for_local.manifest.model_copy(
        update={
            "model": for_local.manifest.model.model_copy(update={"softmax_outputs": (), "flops": 1024}),
            "device": "opencl:pocl",
            "runtime": RuntimeNeeds(devices=("opencl",)),
            "inputs": tensors(sample),
            "outputs": tensors(expected),
        }
    )
    library = opencl_network.network()
    return dataclasses.replace(
        for_local, manifest=manifest, library=library, sample=sample, expected=expected
    )


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> SetEnvironment:
    """Return a function that adds to what the board's programs are started with."""
    plain = LocalTransport._environment()

    def add(**values: str | Path) -> None:
        words = plain | {name: str(value) for name, value in values.items()}
        monkeypatch.setattr(LocalTransport, "_environment", staticmethod(lambda: words))

    return add


def test_opencl_bundle_is_verified_and_timed(for_opencl: Bundle, local: Board) -> None:
    assert verify_bundle(for_opencl, OnBoard(local)).passed
    found = bench_bundle(for_opencl, OnBoard(local), Sampling(repeat=3))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["device"] == "opencl:pocl" and document["mean_ms"] > 0
    assert set(document["copies_ms"]) == {"to_device", "from_device"}
    assert any("is no GPU (cpu, Portable Computing Language" in words for words in document["warnings"])
    kept = local.transport.listing("state/devices/opencl")
    assert len(kept) == 5, "what was compiled stays for the next measurement"


def test_verify_fails_on_wrong_opencl_output(for_opencl: Bundle, local: Board) -> None:
    source = opencl_network.changed(
        for_opencl.library, lambda code: code.replace(b"* 1.250000e-01f", b"* 9.250000e-01f")
    )
    assert not verify_bundle(dataclasses.replace(for_opencl, library=source), OnBoard(local)).passed


def test_without_a_driver_nothing_is_sent(
    for_opencl: Bundle, local: Board, environment: SetEnvironment, tmp_path: Path
) -> None:
    environment(OCL_ICD_VENDORS=tmp_path)
    with pytest.raises(
        UsageError, match=r"it needs a device of kind opencl, but board local has none: libOp"
    ):
        verify_bundle(for_opencl, OnBoard(local))
    assert local.transport.listing("lib") == {}


def test_a_driver_that_hangs_leaves_the_board_usable(
    for_opencl: Bundle,
    for_local: Bundle,
    local: Board,
    environment: SetEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(LD_LIBRARY_PATH=stub(tmp_path / "driver"), STUB_HARM="hang")
    monkeypatch.setattr(install, "_DRIVER_SECONDS", 0.5)
    with pytest.raises(UsageError, match=r"board local has none: its driver did not answer within 0\.5"):
        bench_bundle(for_opencl, OnBoard(local))
    assert verify_bundle(for_local, OnBoard(local)).passed, "the CPU's networks run as before"


def test_boards_say_what_their_drivers_say(for_opencl: Bundle, local: Board, invoke: Toolchain) -> None:
    assert verify_bundle(for_opencl, OnBoard(local)).passed  # edge-rt is there
    drivers = {each["kind"]: each for each in status(local).drivers}
    assert sorted(drivers) == ["cuda", "opencl", "vta"]
    driver = drivers["opencl"]
    assert driver["details"][0]["name"] == driver["names"][0]
    shown = invoke("board", "show", "local", "--devices", "--json").document
    assert shown["drivers"] == [*drivers.values()]
    said = invoke("board", "status", "local")
    assert (
        said.code == 0 and f"opencl {driver['names'][0]} (cpu, " in said.out and "work groups to " in said.out
    )


def test_an_older_edge_rt_still_says_how_its_board_is(state: Path) -> None:
    local = find_board("local")
    assert state
    local.transport.put(OLD.encode(), "bin/edge-rt-old", executable=True)
    found = status(local)
    assert (found.error, found.edge_rt, found.drivers) == (None, "0.0.9", [])


def test_the_lab_hands_the_device_on(local: Board) -> None:
    import tvm

    from toolchain.rpc import lab
    from toolchain.rpc.frames import HOST
    from toolchain.rpc.session import open_session

    with lab.join([local]) as running:
        session = open_session(HOST, running.port, "local", 60, 20, threads=1)
        card = session.device("opencl")
        assert card.exist and card.device_name.startswith(NAMES)
        x = np.arange(64, dtype="float32")
        a, b = tvm.runtime.tensor(x, card), tvm.runtime.empty((64,), "float32", card)
        session.upload(bytearray(opencl_network.plus_one()), "lib.so")
        session.load_module("lib.so")["main"](a, b)
        np.testing.assert_array_equal(b.numpy(), x + 1)
        del a, b, session

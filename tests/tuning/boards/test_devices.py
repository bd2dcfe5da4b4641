"""What a device's driver says before and while candidates are measured: PoCL, and drivers of the tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.opencl.pocl import NAMES
from tests.rpc.peers import running_tracker
from tests.runtime.conftest import Edge
from tests.runtime.stub_drivers import stub
from tests.waiting import PATIENCE_S
from toolchain.errors import UsageError
from toolchain.processes.worker import Worker
from toolchain.rpc.client import TrackerClient
from toolchain.rpc.frames import HOST
from toolchain.rpc.session import wait_for_server
from toolchain.runtime import ensure_runtime
from toolchain.tuning.boards import devices
from toolchain.tuning.boards.devices import _one, check_driver, device_there, told
from toolchain.tuning.boards.pool import BoardPool


@contextmanager
def asked(folder: Path, **environment: str | Path) -> Iterator[BoardPool]:
    """Yield a pool of one board, whose programs are started with these variables."""
    words = [f"{name}={value}" for name, value in environment.items()]
    edge = Edge("x86_64", ("env", *words, str(ensure_runtime("x86_64").program)))
    worker = Worker()
    with running_tracker() as port, edge.serving(folder / "serving", port):
        board = SimpleNamespace(board=SimpleNamespace(name="far"), key="board", worker=worker)
        try:
            yield SimpleNamespace(all=[board], tracker=lambda: TrackerClient(HOST, port))  # type: ignore[misc]
        finally:
            worker.close()


@pytest.mark.slow
def test_the_driver_names_what_measures(tmp_path: Path) -> None:
    with asked(tmp_path) as pool:
        named = device_there(pool, "opencl")
    assert named.removeprefix("opencl:").startswith(NAMES) and " " not in named


@pytest.mark.slow
def test_a_worker_that_starts_slowly_costs_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server waits six seconds for the client that was given its offer."""
    started = Worker._start

    def slowly(worker: Worker) -> Any:
        begun.append(time.monotonic())
        time.sleep(1)
        return started(worker)

    def granted(*arguments: Any) -> Any:
        begun.append(time.monotonic())
        return wait_for_server(*arguments)

    begun: list[float] = []
    monkeypatch.setattr(Worker, "_start", slowly)
    monkeypatch.setattr(devices, "wait_for_server", granted)
    with asked(tmp_path) as pool:
        assert device_there(pool, "opencl")
    start, grant = begun
    assert grant - start > 1, "the worker was there before the grant"


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["none", "hang", "crash"])
def test_a_driver_that_is_not_there_or_does_harm_is_told_and_the_board_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr(devices, "_ANSWER_S", 5.0 if harm == "hang" else PATIENCE_S)
    says = {
        "none": "libOpenCL|no platform|no device",
        "hang": r"its driver did not answer within 5 s",
        "crash": "its driver ended the process that asked it",
    }[harm]
    without = {"OCL_ICD_VENDORS": tmp_path}
    environment = (
        without if harm == "none" else {"LD_LIBRARY_PATH": stub(tmp_path / "driver"), "STUB_HARM": harm}
    )
    with asked(tmp_path, **environment) as pool:
        with pytest.raises(UsageError, match=rf"--device opencl: board far has none: .*({says})") as raised:
            device_there(pool, "opencl")
        with pool.tracker() as tracker:
            assert wait_for_server(tracker, "board", PATIENCE_S, 10.0), "the next session can begin"
    assert raised.value.hint and "board show far --devices" in raised.value.hint


def test_boards_with_different_devices_are_not_alike() -> None:
    assert _one({"a": "opencl:x", "b": "opencl:x"}) == "opencl:x"
    with pytest.raises(UsageError, match="board a computes on opencl:x, board b on opencl:y"):
        _one({"a": "opencl:x", "b": "opencl:y"})


@pytest.mark.slow
def test_a_simulation_is_taken_by_its_name_alone(tmp_path: Path) -> None:
    with asked(tmp_path) as pool:
        check_driver(pool, "vta:sim")
        for device in ("vta", "vta:pynq", "vta:none"):
            with pytest.raises(UsageError, match=rf"--device {device}: board far has none: .*Zynq") as raised:
                check_driver(pool, device)
            assert raised.value.hint == "name one that it has: --device vta:sim"
        with pytest.raises(UsageError, match=r"--device npu: board far has none: its edge-rt knows no such"):
            check_driver(pool, "npu")


def test_a_build_is_told_how_to_take_the_records() -> None:
    assert told("opencl:mali-t860", "opencl:mali-t860") == ""
    assert told("opencl:pthread-x(r)", "opencl").endswith("--device 'opencl:pthread-x(r)'")

"""A tuning run whose lab goes away, or that waits for a board which others hold, ends when it should."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from tests.tuning.plain import plain
from tests.waiting import until
from toolchain.boards.inventory.lookup import local_board
from toolchain.errors import ToolchainError
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.rpc.frames import HOST
from toolchain.rpc.session import open_session
from toolchain.tuning.events import Event, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.tune import tune

pytestmark = pytest.mark.slow
HOW = TuneOptions(trials=1, heaviest=1, tuner="random", repeat=2, min_repeat_ms=1, timeout_s=5)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.full)], ids=["gone", "stopped"]
)
@pytest.mark.usefixtures("state")
def test_a_lab_that_goes_ends_the_run(model: Model, store: RecordStore, number: signal.Signals) -> None:
    before = threading.active_count()
    pids: list[int] = []
    told: list[Trial] = []

    def listen(event: Event) -> None:
        if not isinstance(event, Trial) or event.stage != "search":
            return
        told.append(event)
        if not pids:
            status = lab.status()
            assert status is not None
            pids.append(status.pid)
            os.kill(status.pid, number)

    how = replace(HOW, trials=200)
    try:
        with pytest.raises(ToolchainError, match=r"no tracker answers|the lab") as caught:
            tune(model, plain(local_board()), [local_board()], store, how, listen)
        assert "lab" in caught.value.hint
        kept = [record for record in store.all() if record.provenance.trial is not None]
        assert 1 <= len(kept) == len(told) < how.trials
    finally:
        if number == signal.SIGSTOP:
            os.kill(pids[0], signal.SIGKILL)
        lab.stop()
    until(lambda: threading.active_count() <= before)


@pytest.mark.usefixtures("state")
def test_the_first_ctrl_c_ends_a_run_that_waits_for_a_held_board(model: Model, store: RecordStore) -> None:
    board = local_board()
    running = lab.start([board])
    held = open_session(HOST, running.port, "local", timeout_s=300, wait_s=10)
    before = threading.active_count()

    def interrupt() -> None:
        until(lambda: lab.status().keys["local"]["pending"] > 0, seconds=120)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            tune(model, plain(board), [board], store, HOW, lambda _: None)
        interrupted = time.monotonic()
        thread.join()
        until(lambda: threading.active_count() < before + 1)
        assert time.monotonic() - interrupted < 60
        assert lab.status().keys["local"]["pending"] == 0
    finally:
        del held
        lab.stop()

"""What becomes of `tune` where others use the same records, or the records go away."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from edge_toy.backend import POINTS

from tests.cli.running import Toolchain
from tests.records.postgres.server import PASSWORD, postgres
from toolchain.configuration.settings import configuration
from toolchain.records.postgres import server as module
from toolchain.records.record import Record
from toolchain.records.store import RecordStore, user_store

pytestmark = pytest.mark.slow
TUNE = ("tune", "small.onnx", "--board", "local", "--device", "toy", "--trials", "100")


@pytest.mark.usefixtures("state")
def test_two_runs_at_once_on_one_store(invoke: Toolchain, toy: Path) -> None:
    program = [sys.executable, "-m", "toolchain", *TUNE]
    runs = [
        subprocess.Popen(
            program,
            cwd=toy,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    said = [run.communicate(timeout=300)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    with user_store() as store:
        records = store.all()
    of_run = Counter(record.provenance.run for record in records)
    assert len(of_run) == 2 and len({record.digest for record in records}) == len(POINTS)
    assert len({record.function for record in records}) == 1
    (best,) = invoke("records", "best", "--json").document
    assert best["confirmed"]


@pytest.mark.usefixtures("state", "toy")
def test_a_database_that_goes_away_ends_the_run_and_keeps_what_was_measured(
    invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AWAY_S", 1.0)
    added = RecordStore.add
    with postgres() as server:
        monkeypatch.setenv("TOOLCHAIN_RECORDS_URL", server.new())
        configuration.cache_clear()
        kept: list[Record] = []

        def add(store: RecordStore, record: Record) -> None:
            if len(kept) == 6:
                server.stop()
            added(store, record)
            kept.append(record)

        monkeypatch.setattr(RecordStore, "add", add)
        ran = invoke(*TUNE)
        assert ran.code == 1 and ran.says(
            "stopped answering and did not come back",
            "the 6 records added so far are stored",
            "it continues where it stopped",
        )
        assert PASSWORD not in ran.out + ran.err
        monkeypatch.setattr(RecordStore, "add", added)
        server.start()
        with user_store() as store:
            assert store.all() == kept
        again = invoke(*TUNE, "--json")
        before = {record.digest for record in kept if record.provenance.trial is not None}
        assert again.document["trials"] == len(POINTS) - 1 - len(before)
        with user_store() as store:
            assert {record.digest for record in kept} < {record.digest for record in store.all()}

"""A run by plans measures the candidates that a run call by call does, and comes to the same verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import local_board
from toolchain.models.load import Model
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.boards.planned import SWITCH
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.tune import tune

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]


def trials(model: Model, folder: Path) -> list[tuple[str, str, str | None]]:
    """Tune; return task, point and failure of each measured candidate, whatever came first."""
    board = local_board()
    how = TuneOptions(trials=6, heaviest=2, repeat=2, min_repeat_ms=1, tuner="random", search_seed=3)
    with RecordStore(folder / FILE_NAME) as store:
        result = tune(model, backend_for(board.profile, CodeOptions()), [board], store, how, lambda _: None)
        assert result.to_json()["failed"] == 0
        records = [each for each in store.all() if not each.confirmed]
    return sorted((each.key.workload, each.digest, each.failure) for each in records)


def test_first_batches_and_verdicts_are_the_same(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for way in ("", "1"):
        monkeypatch.setenv(SWITCH, way)
        (tmp_path / f"way{way}").mkdir()
        found[way] = trials(model, tmp_path / f"way{way}")
    assert found[""] == found["1"]
    assert len({workload for workload, *_rest in found[""]}) == 2

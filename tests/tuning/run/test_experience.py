"""What the store says before a space is searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.tuners.grid import TASK, Cell, Grid, measured
from toolchain.errors import ToolchainError
from toolchain.records.record import Provenance, Record, RecordKey
from toolchain.records.store import RecordStore
from toolchain.tasks.candidate import Entry
from toolchain.tasks.tuner import Experience
from toolchain.tuning.run.experience import Experienced, experience_of, recorded
from toolchain.tuning.tuners.table import TUNERS, RandomSearch

OURS = RecordKey("own", "x86_64-linux-gnu", "x86-64-v3", "x86-64-v3", 1, "x86_64")
FITS = 40


class Related(Grid):
    """Cells of other tasks are cells here, the sizes of their tasks one more feature."""

    def features(self, point: Cell) -> list[float]:
        return [*super().features(point), 8.0]

    def foreign_features(self, entry: Entry, definition: str) -> list[float]:
        return [*super().features(self._cell(entry)), float(definition)]

    def adapted(self, entry: Entry, definition: str) -> Cell:
        del definition
        return self.nearest(self._cell(entry)._asdict())

    def _cell(self, entry: Entry) -> Cell:
        try:
            tile, other, order, unrolled = entry.payload.split()
            return Cell(int(tile), int(other), order, unrolled == "True")
        except ValueError as error:
            raise ToolchainError(f"no cell: {entry.payload}") from error


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as opened:
        yield opened


def add(store: RecordStore, key: RecordKey, cells: Sequence[Cell], *, modelled: bool = False) -> None:
    """Add records of a task whose definition is a number."""
    size = "9" if key.workload == "far" else "8"
    function = store.add_function(key.workload, key.workload, size)
    provenance = Provenance("run", "board", "runtime", "0", "0", "0", modelled=modelled)
    for cell in cells:
        result = measured(cell, FITS)
        text = " ".join(map(str, cell))
        store.add(Record(key, function, "cell", text, text, provenance, result.run_ms, result.failure))


def test_other_tasks_and_other_places_are_lessons_of_their_own(store: RecordStore) -> None:
    space = Related(12, 144)
    near, far = replace(OURS, workload="near"), replace(OURS, workload="far", threads=2)
    other_board = replace(OURS, board_class="rk3399", cpu="cortex-a72")
    for key in (OURS, near, far, other_board, replace(near, board_class="x86_64+emulated")):
        add(store, key, space.points[:3])
    add(store, near, space.points[:3], modelled=True)
    groups = recorded(store, OURS, space)
    assert sorted(len(group) for group in groups) == [3, 3, 3, 3]  # `near` twice: by a clock, by a model
    assert {foreign.definition for group in groups for foreign in group} == {"8", "9"}
    assert {foreign.result.modelled for group in groups for foreign in group} == {False, True}


def test_the_best_of_the_most_similar_task_come_first(store: RecordStore) -> None:
    space = Related(12, 144)
    add(store, replace(OURS, workload="far"), [Cell(2, 2, "rows", True), Cell(1, 2, "rows", True)])
    add(store, replace(OURS, workload="near"), [Cell(1, 1, "rows", True), Cell(5, 8, "rows", True)])
    experience = experience_of(recorded(store, OURS, space), space)
    assert experience.points[:2] == [Cell(5, 8, "rows", True), Cell(2, 2, "rows", True)]
    assert sorted(len(lesson) for lesson in experience.lessons) == [2, 2]


def test_what_means_nothing_here_is_left_out(store: RecordStore) -> None:
    key = replace(OURS, workload="near")
    function = store.add_function("near", "near", "8")
    provenance = Provenance("run", "board", "runtime", "0", "0", "0")
    store.add(Record(key, function, "cell", "of another version", "1", provenance, (1.0,)))
    store.add(Record(key, function, "trace", "1 1 rows True", "2", provenance, (1.0,)))
    space = Related()
    assert experience_of(recorded(store, OURS, space), space) == Experience([], [])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["xgb", "xgb-rank"])
def test_a_search_begins_where_others_ended(store: RecordStore, name: str) -> None:
    """Without a result of its own, and with nothing near the best among the records."""
    space = Related(12, 144)
    add(store, replace(OURS, workload="near"), space.points[::7])
    tuner = Experienced(TUNERS[name](TASK, space, 1), space, OURS, store)
    first = tuner.propose(8)
    assert len(first) == len(set(first)) == 8
    assert sum(FITS / 2 <= cell.tile * cell.other <= 1.2 * FITS for cell in first) >= 5
    again = tuner.propose(8)
    assert not set(first) & set(again)


@pytest.mark.parametrize("name", ["ga", "xgb-knob"])
def test_without_shared_features_the_best_points_are_tried(store: RecordStore, name: str) -> None:
    space = Related(12, 144)
    add(store, replace(OURS, workload="near"), [Cell(5, 8, "rows", True), Cell(1, 1, "rows", True)])
    tuner = Experienced(TUNERS[name](TASK, space, 1), space, OURS, store)
    assert Cell(5, 8, "rows", True) in tuner.propose(4)


def test_experience_is_asked_for_once_when_a_search_begins(store: RecordStore) -> None:
    """By then the run's other tasks have records; a tuner without a use for them costs nothing."""
    told: list[Experience[Any]] = []

    class Listening(RandomSearch[Any]):
        transfers = True

        def transfer(self, experience: Experience[Any]) -> None:
            told.append(experience)

    space = Related()
    tuner = Experienced(Listening(TASK, space, 1), space, OURS, store)
    tuner.learn([(space.default(), measured(space.default()))])
    add(store, replace(OURS, workload="near"), space.points[:3])
    points: list[Any] = [*tuner.propose(2), *tuner.propose(2)]
    assert len(told) == 1 and len(told[0].lessons[0]) == 3
    assert space.default() not in points
    store.close()
    assert Experienced(RandomSearch(TASK, space, 1), space, OURS, store).propose(2)

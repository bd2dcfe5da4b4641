"""Records of choices, and what a build makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.building.test_build import check_outputs
from toolchain.boards.inventory import find_target
from toolchain.building.build import BuildOptions, BuildResult, build, record_key
from toolchain.building.cpu.core import core_of
from toolchain.building.tasks import Task
from toolchain.bundles.read import read_bundle
from toolchain.models.load import Model
from toolchain.records.record import CPU, Provenance, Record
from toolchain.records.store import RecordStore
from toolchain.records.traces import function_json
from toolchain.targets.target import target_for
from toolchain.tuning.choice_search import ChoiceSearch

PROVENANCE = Provenance("run-1", "local", "f00d", "0.27", "0.1.14", "0.1.0")


@pytest.fixture(scope="module")
def built(model: Model, tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    """Return what is built for this host without records."""
    return build(model, find_target("local"), None, tmp_path_factory.mktemp("built"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as opened:
        yield opened


def search(task: Task) -> ChoiceSearch:
    """Return the space of a task on this host, its default known."""
    found = ChoiceSearch(task, core_of(target_for(find_target("local").profile)), use_winograd=True)
    found.default()
    return found


def add(store: RecordStore, task: Task, payload: str) -> None:
    """Put a measured choice of `task` for this host into the store."""
    target = find_target("local")
    key = record_key(task.workload, target_for(target.profile), target.record_class)
    function = store.add_function(task.workload, task.name, function_json(task.func))
    store.add(Record(key, function, CPU, payload, payload[:64], PROVENANCE, (1.0,)))


def test_a_choice_decides_and_the_manifest_says_so(
    model: Model, built: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    searches = {decision.task.id: search(decision.task) for decision in built.decisions}
    tasks = {decision.task.id: decision.task for decision in built.decisions}
    first, second = [name for name, found in searches.items() if found.space][:2]
    add(store, tasks[first], searches[first].space[0].to_json())
    add(store, tasks[second], searches[second].default().payload)
    result = build(model, find_target("local"), store, tmp_path)
    assert result.to_json()["tasks"] == {"total": len(tasks), "tuned": 2, "improved": 1}
    assert result.to_json()["warnings"] == []
    facts = {task.id: task for task in read_bundle(result.bundle).manifest.tasks}
    assert (facts[first].tuned, facts[first].improved, facts[first].source) == (True, True, "exact")
    assert (facts[second].tuned, facts[second].improved) == (True, False)
    assert result.library_sha256 != built.library_sha256
    check_outputs(result.library, model)


def test_records_of_the_defaults_change_nothing_but_the_manifest(
    model: Model, built: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    for decision in built.decisions:
        add(store, decision.task, search(decision.task).default().payload)
    result = build(model, find_target("local"), store, tmp_path, BuildOptions(require_tuned=True))
    assert result.to_json()["tasks"] == {
        "total": len(built.decisions),
        "tuned": len(built.decisions),
        "improved": 0,
    }
    assert result.library_sha256 == built.library_sha256


@pytest.mark.parametrize(
    "change",
    [
        {"columns": 1000},
        {"blocks": 64},
        {"rows": 0},
        {"algorithm": "winograd", "tile": 5},
        {"algorithm": "depthwise", "blocks": 0},
        {"algorithm": "dense"},
        {"algorithm": "nosuch"},
        {"columns": "eight"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_choice_that_is_none_of_the_task_warns_and_the_default_is_taken(
    model: Model, built: BuildResult, store: RecordStore, tmp_path: Path, change: dict[str, object]
) -> None:
    task = next(each.task for each in built.decisions if each.rule in ("direct", "winograd"))
    payload = json.dumps({**json.loads(search(task).default().payload), **change})
    add(store, task, payload)
    result = build(model, find_target("local"), store, tmp_path)
    assert result.to_json()["tasks"] == {"total": len(built.decisions), "tuned": 0, "improved": 0}
    (warning,) = [decision.warning for decision in result.decisions if decision.warning]
    assert "choice" in warning and "--fresh" in warning
    assert result.library_sha256 == built.library_sha256

"""Records of choices, and what a build makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.building.measured import add, check_outputs
from toolchain.backends.packed.kinds import CPU, WINOGRAD
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.space import PackedSpace
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import BuildResult, build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.targets.target import target_for
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task


def space(task: Task) -> PackedSpace:
    """Return the space of a task on this host."""
    assert isinstance(task, FusedTask)
    target = target_for(find_target("local").profile)
    return PackedSpace(task, target, Choices(machine_of(target)))


def add_defaults(store: RecordStore, built: BuildResult, excluded: str = "") -> None:
    """Record for each task what a build without records chose."""
    for decision in built.decisions:
        payload = space(decision.task).default().to_json()
        add(store, decision.task, find_target("local"), CPU, payload, excluded)


@pytest.mark.slow
def test_a_choice_decides_and_the_manifest_says_so(
    model: Model, built: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    target = find_target("local")
    spaces = {decision.task.id: space(decision.task) for decision in built.decisions}
    tasks = {decision.task.id: decision.task for decision in built.decisions}
    first, second = [name for name, found in spaces.items() if found.size > 1][:2]
    add(store, tasks[first], target, CPU, spaces[first].point(1).to_json())
    add(store, tasks[second], target, CPU, spaces[second].default().to_json())
    result = build(model, target, store, tmp_path)
    assert result.to_json()["tasks"] == {"total": len(tasks), "tuned": 2, "improved": 1}
    assert result.to_json()["warnings"] == []
    facts = {task.id: task for task in read_bundle(result.bundle).manifest.tasks}
    assert (facts[first].tuned, facts[first].improved, facts[first].source) == (True, True, "exact")
    assert (facts[second].tuned, facts[second].improved) == (True, False)
    assert facts[first].rule == spaces[first].point(1).algorithm
    assert result.library_sha256 != built.library_sha256
    check_outputs(result.library, model)


@pytest.mark.slow
def test_records_of_the_defaults_change_nothing_but_the_manifest(
    model: Model, built: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    target = find_target("local")
    add_defaults(store, built)
    result = build(model, target, store, tmp_path, BuildOptions(require_tuned=True))
    assert result.to_json()["tasks"] == {
        "total": len(built.decisions),
        "tuned": len(built.decisions),
        "improved": 0,
    }
    assert result.library_sha256 == built.library_sha256


@pytest.mark.slow
def test_what_was_found_without_winograd_decides_only_without(
    model: Model, built: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    target = find_target("local")
    add_defaults(store, built, excluded=WINOGRAD)
    assert build(model, target, store, tmp_path).to_json()["tasks"]["tuned"] == 0
    off = BuildOptions(code=CodeOptions(winograd="off"))
    assert build(model, target, store, tmp_path, off).to_json()["tasks"]["tuned"] == len(built.decisions)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",  # one for each of the network's direct convolutions
    [
        ({"columns": 1000}, {"blocks": 64}, {"rows": 0}),
        (
            {"algorithm": "winograd", "tile": [5, 5]},
            {"algorithm": "depthwise", "blocks": 0},
            {"columns": "eight"},
        ),
        ({"algorithm": "dense"}, {"algorithm": "nosuch"}, {"unknown": 1}),
    ],
    ids=str,
)
def test_choices_that_are_none_of_the_task_warn_and_the_default_is_taken(
    model: Model,
    built: BuildResult,
    store: RecordStore,
    tmp_path: Path,
    changes: tuple[dict[str, object], ...],
) -> None:
    target = find_target("local")
    tasks = [each.task for each in built.decisions if each.rule in ("direct", "winograd")]
    for task, change in zip(tasks, changes, strict=True):
        payload = json.dumps({**json.loads(space(task).default().to_json()), **change})
        add(store, task, target, CPU, payload)
    result = build(model, target, store, tmp_path)
    assert result.to_json()["tasks"] == {"total": len(built.decisions), "tuned": 0, "improved": 0}
    warnings = {decision.task.id: decision.warning for decision in result.decisions if decision.warning}
    assert list(warnings) == [task.id for task in tasks]
    assert all(
        ("choice" in warning or "code variant" in warning) and "--fresh" in warning
        for warning in warnings.values()
    )
    assert result.library_sha256 == built.library_sha256

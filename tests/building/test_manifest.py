"""What a manifest says of a build: the model, the tasks, and the records that decided."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from tvm import s_tir

from tests.building.measured import add, check_outputs
from toolchain.backends.tensorir.traces import trace_entry
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import BuildResult, build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.errors import ToolchainError
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.targets.build_for import BuildFor
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PLAIN = BuildOptions(code=CodeOptions(layout="NCHW"))


def test_manifest_describes_build(model: Model, built: BuildResult) -> None:
    bundle = read_bundle(built.bundle)
    manifest = bundle.manifest
    assert bundle.sha256 == built.bundle_sha256
    assert bundle.library == built.library.read_bytes()
    assert (manifest.board, manifest.emulated, manifest.format) == ("local", False, "so")
    assert manifest.model.softmax_outputs == ("prob",)
    assert manifest.model.sha256 == model.sha256
    assert [spec.name for spec in manifest.inputs] == ["data"]
    assert [spec.name for spec in manifest.outputs] == ["prob", "logits"]
    assert manifest.tolerance == 1e-3
    assert not any(task.tuned or task.improved or task.source for task in manifest.tasks)
    assert [task.id for task in manifest.tasks] == [decision.task.id for decision in built.decisions]
    told = json.loads(json.dumps(built.to_json()))
    assert told["tasks"] == {"total": 8, "tuned": 0, "improved": 0}
    assert told["rules"] == {task.id: task.rule for task in manifest.tasks}
    assert {task.products for task in manifest.tasks} == {"float32"}
    assert {"dense", "direct", "general"} <= set(told["rules"].values())


@pytest.fixture(scope="module")
def built_plain(model: Model, tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    return build(model, find_target("local"), None, tmp_path_factory.mktemp("plain"), PLAIN)


def other_schedule(task: FusedTask) -> str:
    """Return the payload of a trace that a tuner could have found: one block's loops in parallel."""
    module = tvm.IRModule({"main": task.func.with_attr("global_symbol", "main")})
    schedule = s_tir.Schedule(module)
    block = schedule.get_child_blocks(schedule.get_sblock("root"))[-1]
    loops = schedule.get_loops(block)
    schedule.parallel(schedule.fuse(*loops[:3]))
    return trace_entry(schedule.trace, []).payload


def test_records_decide_and_the_manifest_says_so(
    model: Model, built_plain: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    target = find_target("local")
    first, second, *_ = [decision.task for decision in built_plain.decisions]
    add(store, first, target, "metaschedule", other_schedule(first))
    add(store, second, target, "default", "")
    result = build(model, target, store, tmp_path, PLAIN)
    assert result.to_json()["tasks"] == {"total": 8, "tuned": 2, "improved": 1}
    assert result.to_json()["warnings"] == []
    facts = {task.id: task for task in read_bundle(result.bundle).manifest.tasks}
    assert (facts[first.id].tuned, facts[first.id].improved, facts[first.id].source) == (True, True, "exact")
    assert (facts[second.id].tuned, facts[second.id].improved) == (True, False)
    assert sum(task.tuned for task in facts.values()) == 2
    assert result.library_sha256 != built_plain.library_sha256  # another schedule is other code
    check_outputs(result.library, model)


def test_a_record_of_the_default_changes_nothing_but_the_manifest(
    model: Model, built_plain: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    target = find_target("local")
    for decision in built_plain.decisions:
        add(store, decision.task, target, "default", "")
    result = build(model, target, store, tmp_path, replace(PLAIN, require_tuned=True))
    assert result.to_json()["tasks"] == {"total": 8, "tuned": 8, "improved": 0}
    assert result.library_sha256 == built_plain.library_sha256
    assert result.bundle_sha256 != built_plain.bundle_sha256


def test_records_of_an_emulated_board_do_not_count_for_its_class(
    model: Model, built_plain: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    real = find_target("rk3399")
    emulated = BuildFor(real.profile, "rk3399-emulated", emulated=True, record_class="rk3399+emulated")
    add(store, built_plain.decisions[0].task, emulated, "default", "")
    assert build(model, real, store, tmp_path, PLAIN).to_json()["tasks"] == {
        "total": 8,
        "tuned": 0,
        "improved": 0,
    }
    result = build(model, emulated, store, tmp_path, PLAIN)
    assert result.to_json()["tasks"] == {"total": 8, "tuned": 1, "improved": 0}
    assert read_bundle(result.bundle).manifest.emulated
    assert result.bundle.name == "residual-rk3399-emulated.bundle"


def test_a_record_that_no_longer_applies_warns_and_the_default_is_taken(
    model: Model, built_plain: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    target = find_target("local")
    first, second, *_ = [decision.task for decision in built_plain.decisions]
    lost = other_schedule(first).replace('"root"', '"gone"')
    add(store, first, target, "metaschedule", lost)
    add(store, second, target, "metaschedule", "{")
    result = build(model, target, store, tmp_path, PLAIN)
    assert result.to_json()["tasks"] == {"total": 8, "tuned": 0, "improved": 0}
    warnings = result.to_json()["warnings"]
    assert isinstance(warnings, list)
    assert len(warnings) == 2
    assert all("no longer applies" in warning and "--fresh" in warning for warning in warnings)
    assert first.id in warnings[0]
    assert result.library_sha256 == built_plain.library_sha256


def test_require_tuned_names_the_tasks_and_the_command(
    model: Model, built_plain: BuildResult, store: RecordStore, tmp_path: Path
) -> None:
    target = find_target("local")
    tasks = [decision.task for decision in built_plain.decisions]
    add(store, tasks[0], target, "default", "")
    with pytest.raises(ToolchainError, match="--require-tuned: 7 of 8 tasks of residual") as raised:
        build(model, target, store, tmp_path / "out", replace(PLAIN, require_tuned=True))
    assert raised.value.exit_code == 1
    assert all(f"{task.id} ({task.name})" in raised.value.message for task in tasks[1:])
    assert tasks[0].id not in raised.value.message
    ids = ",".join(task.id for task in tasks[1:])
    assert raised.value.hint == f"toolchain tune {model.source} --board local --layout NCHW --tasks {ids}"
    assert not (tmp_path / "out").exists()

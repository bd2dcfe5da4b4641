"""What a station measured becomes records, and nothing else does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.quantising.affine.networks import mobile
from tests.runtime.offline_folder import copied, resealed
from tests.tuning.offline.conftest import HOW, Offline, measured
from toolchain.boards.inventory.lookup import local_board
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.records.store import RecordStore
from toolchain.targets.target import device_target
from toolchain.tuning.events import Event, Notice, Trial
from toolchain.tuning.offline import about
from toolchain.tuning.offline.opened import open_folder
from toolchain.tuning.plans.plan import read_plan

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with RecordStore(tmp_path / "records.sqlite") as opened:
        yield opened


def lines(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "results").read_text().splitlines()]


def write(folder: Path, documents: list[Any]) -> None:
    (folder / "results").write_text("".join(f"{json.dumps(each)}\n" for each in documents))


def test_results_are_records_with_their_provenance(
    offline: Offline, folder: Path, store: RecordStore
) -> None:
    events: list[Event] = []
    result = offline.load(folder, store, listen=events.append)
    head, *found = lines(folder)
    records = store.of_run(result.run)
    assert result.run == head["plan"][:32]
    assert sorted(record.run_ms for record in records) == sorted(tuple(each["ms"]) for each in found)
    assert {record.provenance.board for record in records} == {"offline local"}
    assert {record.provenance.runtime for record in records} == {head["runtime"]}
    assert sorted(record.provenance.trial is None for record in records) == [False] * 3 + [True] * 2
    assert not any(record.confirmed for record in records)
    best = {each["candidate"]: sum(each["ms"]) / len(each["ms"]) for each in found}
    assert min(tuned.best_ms for tuned in result.tasks) == min(best.values())
    assert [event.text for event in events if isinstance(event, Notice)][-1].startswith(
        "builds use what an earlier run confirmed, or else the fastest"
    )


@pytest.mark.parametrize("fresh", [False, True])
def test_twice_is_once(fresh: bool, offline: Offline, folder: Path, store: RecordStore) -> None:
    how = replace(HOW, fresh=fresh)
    first = offline.load(folder, store, how)
    again = offline.load(folder, store, how)
    assert (sum(each.trials for each in first.tasks), sum(each.trials for each in again.tasks)) == (3, 0)
    assert [each.choice.digest for each in first.tasks] == [each.choice.digest for each in again.tasks]
    assert len([record for record in store.of_run(first.run) if record.provenance.trial is not None]) == 3


def trials(store: RecordStore, run: str) -> list[tuple[str, tuple[float, ...]]]:
    """Return the trials of a run, its defaults' times left out, which each import stores."""
    records = [record for record in store.of_run(run) if record.provenance.trial is not None]
    return sorted((record.digest, record.run_ms) for record in records)


@pytest.mark.parametrize("after", [1, 2, 4])
def test_an_interrupted_import_is_completed_by_the_next(
    after: int, offline: Offline, folder: Path, store: RecordStore, tmp_path: Path
) -> None:
    with RecordStore(tmp_path / "whole.sqlite") as whole:
        wanted = trials(whole, offline.load(folder, whole).run)
    seen = 0

    def interrupt(event: Event) -> None:
        nonlocal seen
        seen += isinstance(event, Trial)
        if seen == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        offline.load(folder, store, listen=interrupt)
    assert trials(store, offline.load(folder, store).run) == wanted
    assert trials(store, offline.load(folder, store).run) == wanted


def test_what_is_refused_leaves_earlier_records_as_they_were(
    offline: Offline, folder: Path, store: RecordStore
) -> None:
    run = offline.load(folder, store).run
    before, (head, *found) = store.of_run(run), lines(folder)
    for plan, said in (
        ("0" * 64, "holds the results of another export"),
        (head["plan"], "is not in the plan"),
    ):
        write(folder, [{**head, "plan": plan}, *found[:-1], {**found[-1], "candidate": "0" * 64}])
        with pytest.raises((UsageError, CheckError), match=said):
            offline.load(folder, store)
        assert store.of_run(run) == before and store.runs()[0][0] == run and len(store.runs()) == 1


def test_results_of_a_quantised_network(store: RecordStore, tmp_path: Path) -> None:
    """On a CPU with instructions for products of bytes its tasks are others than without them."""
    onnx.save(mobile(), tmp_path / "net.onnx")
    model = load_model(str(tmp_path / "net.onnx"), ModelOptions(quantizer="minmax"))
    quantised = Offline(model, replace(HOW, heaviest=3))
    said = quantised.export(tmp_path / "folder")
    assert measured(tmp_path / "folder")["failed"] == 0
    tuned = quantised.load(tmp_path / "folder", store).tasks
    assert (len(tuned), sum(each.trials for each in tuned)) == (said.tasks, said.candidates - said.tasks)


def test_the_station_transforms_winograds_weights(store: RecordStore, tmp_path: Path) -> None:
    weight = np.random.default_rng(1).standard_normal((32, 32, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    ends = [tensor_info(name, (1, 32, 14, 14)) for name in "xy"]
    onnx.save(graph_of([node], ends[:1], ends[1:], {"w": weight}), tmp_path / "net.onnx")
    winograd = Offline(load_model(str(tmp_path / "net.onnx"), ModelOptions()), replace(HOW, trials=12))
    said = winograd.export(tmp_path / "folder")
    document = json.loads((tmp_path / "folder" / "candidates.json").read_text())
    assert any('"winograd"' in each["payload"] for each in document["candidates"])
    blocks = read_plan(tmp_path / "folder").blocks.values()
    assert not any(line.startswith("stored") for lines in blocks for line in lines)
    assert measured(tmp_path / "folder")["failed"] == 0
    assert sum(each.trials for each in winograd.load(tmp_path / "folder", store).tasks) == said.candidates - 1


def test_a_cut_measurement_is_imported_and_continued(
    offline: Offline, done: Path, store: RecordStore, tmp_path: Path
) -> None:
    folder = copied(done, tmp_path / "cut")
    text = (folder / "results").read_text().splitlines(keepends=True)
    (folder / "results").write_text("".join(text[:4]) + text[4][:50])
    assert sum(each.trials for each in offline.load(folder, store).tasks) == 1
    assert measured(folder)["measured"] == 2
    assert sum(each.trials for each in offline.load(folder, store).tasks) == 2


def test_only_plan_and_results_need_to_come_back(offline: Offline, folder: Path, store: RecordStore) -> None:
    shutil.rmtree(folder / "members")
    (folder / "edge-rt").unlink()
    assert sum(each.trials for each in offline.load(folder, store).tasks) == 3


def test_failures_are_records_too(offline: Offline, folder: Path, store: RecordStore) -> None:
    head, *found = lines(folder)
    for each, failure in zip(found[2:], ("wrong result", "timeout", "runtime"), strict=True):
        each.update(failure=failure, ms=[], message="[cause kernel-fault] what\x07ever")
    write(folder, [head, *found])
    result = offline.load(folder, store)
    failures = [record.failure for record in store.of_run(result.run) if record.failure]
    assert sorted(filter(None, failures)) == ["runtime", "timeout", "wrong result"]
    assert sum(each.failed for each in result.tasks) == 3


def test_a_task_without_a_default_is_left_out(offline: Offline, folder: Path, store: RecordStore) -> None:
    head, first, *rest = lines(folder)
    events: list[Event] = []
    write(folder, [head, *rest])
    assert len(offline.load(folder, store, listen=events.append).tasks) == 1
    assert any("is left out: its default has no time: it was not measured" in str(event) for event in events)
    write(folder, [head, {**first, "failure": "timeout", "ms": [], "message": "not done"}])
    with pytest.raises(UsageError, match="no task's default was measured"):
        offline.load(folder, store)


BAD: list[tuple[str, Callable[[list[Any]], None], str]] = [
    ("a lie", lambda found: found[1].update(ms=[1e-300, 1e-300]), "needs at least"),
    ("a year", lambda found: found[1].update(ms=[3e10, 1.0]), "s in a process that had"),
    ("too few", lambda found: found[1].update(ms=[1.0]), "it has 1 time, not 2"),
    ("none", lambda found: found[1].update(ms=[]), "it has 0 times, not 2"),
    ("both", lambda found: found[1].update(failure="timeout"), "it has 2 times, not 0"),
    ("infinity", lambda found: found[1].update(ms=[float("inf"), 1.0]), "cannot be right"),
    ("text", lambda found: found[1].update(ms="1.0"), "cannot be right"),
    ("failure", lambda found: found[1].update(failure="bad luck", ms=[]), "cannot be right"),
    ("conditions", lambda found: found[1].update(conditions={"clock_mhz": -1}), "cannot be right"),
    ("another", lambda found: found[1].update(candidate="0" * 64), "a candidate that is not in the plan"),
    ("another plan", lambda found: found[0].update(plan="0" * 64), "the results of another export"),
    ("another edge-rt", lambda found: found[0].update(runtime="0" * 32), "was written by edge-rt 0000"),
    ("twice", lambda found: found.append(found[1]), "line 7 cannot be right: its candidate has a result"),
    ("no head", lambda found: found.pop(0), "line 1 cannot be right"),
]


@pytest.mark.parametrize(("change", "says"), [each[1:] for each in BAD], ids=[each[0] for each in BAD])
def test_results_that_cannot_be_right(
    change: Callable[[list[Any]], None], says: str, offline: Offline, folder: Path, store: RecordStore
) -> None:
    found = lines(folder)
    change(found)
    write(folder, found)
    with pytest.raises((UsageError, CheckError), match=says):
        offline.load(folder, store)
    assert store.runs() == [], "nothing was stored"


def test_folders_that_were_changed(offline: Offline, done: Path, store: RecordStore, tmp_path: Path) -> None:
    plan, document = (done / "plan").read_text(), json.loads((done / "candidates.json").read_text())
    member = next((done / "members").iterdir())

    def says(name: str, change: Callable[[Path], object]) -> str:
        folder = copied(done, tmp_path / name)
        change(folder)
        with pytest.raises(ToolchainError) as error:
            offline.load(folder, store)
        assert error.value.exit_code in (2, 4) and error.value.hint
        return error.value.message

    def described(**values: Any) -> Callable[[Path], object]:
        changed = about.FolderContents.model_validate_json(json.dumps({**document, **values}))
        return lambda f: (f / "candidates.json").write_text(about.text(changed))

    def edited(old: str, new: str) -> Callable[[Path], object]:
        content = (done / "candidates.json").read_text()
        assert old in content
        return lambda f: (f / "candidates.json").write_text(content.replace(old, new, 1))

    def linked(name: str) -> Callable[[Path], object]:
        return lambda f: (f / name).rename(f / "other") and (f / name).symlink_to("other")

    def candidate(**values: Any) -> Callable[[Path], object]:
        first, *others = document["candidates"]
        return described(candidates=[{**first, **values}, *others])

    assert "cannot be read" in says("no plan", lambda f: (f / "plan").unlink())
    assert "is not a plan" in says("other", lambda f: (f / "plan").write_text("x\n"))
    version = says("version", lambda f: (f / "plan").write_text(plan.replace("plan 3", "plan 2", 1)))
    assert "has version '2', this toolchain reads version 3" in version
    assert "changed or cut" in says(
        "changed", lambda f: (f / "plan").write_text(plan.replace("samples 1", "samples 2"))
    )
    assert "too large for a plan" in says("large", lambda f: (f / "plan").open("r+b").truncate(17 << 20))
    assert "too large" in says("results", lambda f: (f / "results").open("r+b").truncate(65 << 20))
    assert "measure first" in str(says_hint(offline, done, store, tmp_path))
    assert "was changed" in says("member", lambda f: (f / "members" / member.name).write_bytes(b"x"))
    resealing = says("resealed", lambda f: resealed(f, plan.replace("samples 1", "samples 2")))
    assert "belongs to another plan" in resealing
    assert "malformed" in says("no json", lambda f: (f / "candidates.json").write_text("{"))
    assert "exported with tool 0.0.1" in says(
        "tool", described(versions={**document["versions"], "tool": "0.0.1"})
    )
    assert "is for threads 77" in says("threads", described(target={**document["target"], "threads": 77}))
    for name, old, new in (
        ("stage", '"stage":"search"', '"stage":"recorded"'),
        ("failure", '"failure":null', '"failure":"timeout"'),
        ("left out", '"left_out":[]', '"left_out":[{"point":"","reason":"","task":""}]'),
    ):
        assert "was changed: it has another digest than it says" in says(name, edited(old, new))
    for name in ("plan", "candidates.json", "results", f"members/{member.name}"):
        assert "it is a link, not a plain file" in says(f"linked {name[:4]}", linked(name))
    payload = document["candidates"][1]["payload"]
    assert "was changed: it has another digest" in says("payload", candidate(payload=f"{payload} "))


def says_hint(offline: Offline, done: Path, store: RecordStore, tmp_path: Path) -> str:
    folder = copied(done, tmp_path / "unmeasured")
    (folder / "results").unlink()
    with pytest.raises(UsageError) as error:
        offline.load(folder, store)
    return error.value.hint


def test_another_target_than_that_of_the_candidates(
    offline: Offline, folder: Path, store: RecordStore
) -> None:
    with pytest.raises(UsageError, match="is for threads"):
        offline.load(folder, store, replace(HOW, threads=63))


def test_another_architecture_than_that_of_the_candidates(done: Path, tmp_path: Path) -> None:
    """The driver's name of a device does not say for which architecture code was made."""
    profile = load_profile("cuda")
    board = local_board()
    made = [device_target(profile, "cuda", arch=arch) for arch in ("sm_90", "sm_80")]
    folder = copied(done, tmp_path / "folder")
    document = json.loads((folder / "candidates.json").read_text())
    document["target"] = about.for_target(made[0], board.record_class).model_dump()
    changed = about.FolderContents.model_validate_json(json.dumps(document))
    (folder / "candidates.json").write_text(about.text(changed))
    with pytest.raises(UsageError, match="is for arch sm_90, this command for sm_80"):
        open_folder(folder, made[1], board)

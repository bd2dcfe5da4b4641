"""A tuning run for real, on the board `local`: every trial kept, resumed, interrupted, failing clearly."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.building.network import written
from tests.waiting import until
from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.errors import ToolchainError, UsageError
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.record import Provenance, Record
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.tasks.candidate import Candidate, record_key
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.events import Event, LeftOut, Trial, TurnBegan, TurnEnded
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run.plan import planned_tasks
from toolchain.tuning.run.tune import tune
from toolchain.tuning.task_run import BadDefaultError, TaskRun

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
QUICK = {"repeat": 2, "min_repeat_ms": 1}


@dataclass
class Here:
    """A store, a model and the board `local`, in a state folder of the test's own."""

    model: Model
    store: RecordStore
    code: CodeOptions = field(default_factory=lambda: CodeOptions(layout="NCHW"))
    events: list[Event] = field(default_factory=list)

    def tune(self, **options: object) -> TuneResult:
        how = TuneOptions(**{**QUICK, "trials": 4, "heaviest": 2, **options})
        board = find_board("local")
        backend = backend_for(board.profile, self.code)
        return tune(self.model, backend, [board], self.store, how, self.events.append)

    @property
    def trials(self) -> list[Trial]:
        return [event for event in self.events if isinstance(event, Trial) and event.stage == "search"]

    @property
    def searched(self) -> list[Record]:
        """The records of trials: no defaults, no choices."""
        return [r for r in self.store.all() if r.provenance.trial is not None and not r.confirmed]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    model = load_model(str(written(tmp_path)), ModelOptions())
    with RecordStore(tmp_path / FILE_NAME) as store:
        yield Here(model, store)
    assert lab.status() is None, "a run that started the lab stops it"


def test_every_trial_is_in_the_store_and_the_next_run_goes_on(here: Here, tmp_path: Path) -> None:
    first = here.tune()
    assert first.to_json()["trials"] == len(here.trials) == 4
    assert [record.kind for record in here.searched] == ["metaschedule"] * 4
    assert [record.provenance.trial for record in here.searched] == [0, 1, 2, 3]
    defaults = [record for record in here.store.all() if record.provenance.trial is None]
    assert {(record.kind, record.key.workload) for record in defaults if not record.confirmed} == {
        ("default", tuned.task.workload) for tuned in first.tasks
    }
    confirmed = [record for record in here.store.all() if record.confirmed]
    assert len(confirmed) == 2
    assert all(record.provenance.board == "local" for record in confirmed)

    again = here.tune()
    assert again.to_json()["trials"] > 0
    digests = [record.digest for record in here.searched]
    assert len(digests) == len(set(digests)) > 4, "no candidate is measured twice"

    built = build(
        here.model, find_target("local"), here.store, tmp_path / "out", BuildOptions(code=here.code)
    )
    assert sum(decision.tuned for decision in built.decisions) == 2
    assert {decision.source for decision in built.decisions if decision.tuned} == {"exact"}


def test_packed_code_is_tuned_over_its_choices(here: Here, tmp_path: Path) -> None:
    here.code = CodeOptions()
    first = here.tune(trials=1, heaviest=1)
    assert first.to_json()["trials"] == len(here.trials) == 1
    records = here.store.all()
    assert {record.kind for record in records} == {"cpu"}
    assert len({record.digest for record in here.searched}) == 1
    assert not any(record.failure for record in records), "every choice computes what the default does"

    again = here.tune(trials=400, heaviest=1)  # all there are
    found = [record.digest for record in here.searched]
    assert len(found) == len(set(found)) == 1 + again.to_json()["trials"] > 1
    assert here.tune(trials=400, heaviest=1).to_json()["trials"] == 0, "nothing is left to try"

    built = build(here.model, find_target("local"), here.store, tmp_path / "out")
    assert [decision.source for decision in built.decisions if decision.tuned] == ["exact"]


def test_named_tasks_alone_are_tuned(here: Here) -> None:
    backend = backend_for(find_board("local").profile, here.code)
    with backend.lower(here.model, backend.target()) as network:
        tasks = planned_tasks(network, TuneOptions())
    result = here.tune(trials=2, heaviest=None, tasks=(tasks[1].id,))
    assert [tuned.task.id for tuned in result.tasks] == [tasks[1].id]


def test_unknown_task_lists_the_known_ones(here: Here) -> None:
    with pytest.raises(UsageError, match=r"--tasks nosuch: is no task of this network: [0-9a-f]{8} \("):
        here.tune(tasks=("nosuch",))


def test_candidates_that_all_fail_end_the_run_with_the_first_reason(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_default = LibraryBuilder.build
    calls = 0

    def broken(self: LibraryBuilder, candidates: list[Candidate]) -> list[BuiltCandidate]:
        nonlocal calls
        calls += 1
        if calls <= 3:  # the known-good kernel, and the defaults of the two tasks
            return build_default(self, candidates)
        return [BuiltCandidate(each, None, "build", "LLVM ERROR: no such instruction") for each in candidates]

    monkeypatch.setattr(LibraryBuilder, "build", broken)
    with pytest.raises(
        ToolchainError, match=r"every candidate of the first round failed, \d in all.*no such instruction"
    ):
        here.tune()
    assert {record.failure for record in here.searched} == {"build"}


def test_the_others_are_tuned_where_the_first_task_is_left_out(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = TaskRun.begin, []

    def first_is_wrong(run: TaskRun[Any]) -> None:
        begun.append(run.task)
        if run.task is begun[0]:
            raise BadDefaultError("its default is wrong", "look at its code")
        begin(run)

    monkeypatch.setattr(TaskRun, "begin", first_is_wrong)
    result = here.tune(trials=2)
    assert [event.tasks for event in here.events if isinstance(event, LeftOut)] == [(begun[0],)]
    assert [tuned.task for tuned in result.tasks] == [begun[1]]
    turns = [event.task for event in here.events if isinstance(event, TurnBegan | TurnEnded)]
    assert turns and set(turns) == {begun[1]}, "who shows the progress knows no run of the first"


def _command(model: Path, *options: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "toolchain",
        "tune",
        str(model),
        "--board",
        "local",
        "--layout",
        "NCHW",
        *options,
    ]


def test_what_a_model_chose_is_measured_with_the_default(here: Here) -> None:
    """Else the default, the only one of which a clock knows, would take its place unasked."""
    here.code = CodeOptions()
    target = find_target("local")
    backend = backend_for(target.profile, here.code)
    with backend.lower(here.model, backend.target()) as network:
        task = planned_tasks(network, TuneOptions(heaviest=1))[0]
        space = network.space(task)
        entry = space.entry(space.point(1))
    key = record_key(task.workload, backend.target(), target.record_class)
    function = here.store.add_function(task.workload, task.name, task.definition)
    modelled = Provenance("earlier", "some-model", "f00d", "0.27", "0.1.14", "0.1.0", modelled=True)
    here.store.add(Record(key, function, entry.kind, entry.payload, entry.digest, modelled, (1e-4,)))

    here.tune(trials=1, heaviest=1)
    told = [event for event in here.events if isinstance(event, Trial)]
    assert [event.stage for event in told] == ["default", "recorded", "search"]
    (record, *_choice) = [
        one for one in here.store.all() if one.digest == entry.digest and not one.provenance.modelled
    ]
    assert (record.provenance.board, record.provenance.trial, record.failure) == ("local", None, None)
    assert record.best_ms is not None and record.best_ms > 1e-4
    here.events.clear()
    here.tune(trials=1, heaviest=1)
    assert not [event for event in here.events if isinstance(event, Trial) and event.stage == "recorded"]


def test_interrupted_run_keeps_its_trials_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    model = written(tmp_path)
    child = subprocess.Popen(
        _command(model, "--trials", "400", "--repeat", "1", "-v"),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert child.stderr is not None
        for line in child.stderr:
            if line.split()[:1] == ["3/400"]:
                break
        mine = psutil.Process(child.pid).children(recursive=True)
        child.send_signal(signal.SIGINT)
        child.wait(120)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    with RecordStore(tmp_path / "data" / FILE_NAME) as store:
        assert len(store.all()) >= 3
    until(lambda: not any(process.is_running() for process in mine))
    until(lambda: lab.status() is None)

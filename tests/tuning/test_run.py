"""A tuning run for real, on the board `local`: every trial kept, resumed, interrupted, failing clearly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.building.network import written
from tests.waiting import until
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.errors import ToolchainError, UsageError
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.records.store import FILE_NAME, RecordStore
from toolchain.rpc import lab
from toolchain.tuning import workbench
from toolchain.tuning.compile import Compiled
from toolchain.tuning.events import Event, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run import plan, shares, tune

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
QUICK = {"repeat": 2, "min_repeat_ms": 1}


@dataclass
class Here:
    """A store, a model and the board `local`, in a state folder of the test's own."""

    model: Model
    store: RecordStore
    events: list[Event] = field(default_factory=list)

    def tune(self, **options: object) -> TuneResult:
        how = TuneOptions(**{**QUICK, "trials": 4, "heaviest": 2, **options})  # type: ignore[arg-type]
        return tune(self.model, [find_board("local")], self.store, how, self.events.append)

    @property
    def trials(self) -> list[Trial]:
        return [event for event in self.events if isinstance(event, Trial) and event.stage == "search"]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    model = load_model(str(written(tmp_path)), ModelOptions(layout="NCHW"))
    with RecordStore(tmp_path / FILE_NAME) as store:
        yield Here(model, store)
    assert lab.status() is None, "a run that started the lab stops it"


def test_every_trial_is_in_the_store_and_the_next_run_goes_on(here: Here, tmp_path: Path) -> None:
    first = here.tune()
    assert first.to_json()["trials"] == len(here.trials) == 4
    kinds = [record.kind for record in here.store.all() if not record.confirmed]
    assert kinds == ["metaschedule"] * 4
    confirmed = [record for record in here.store.all() if record.confirmed]
    assert len(confirmed) == 2
    assert all(record.provenance.board == "local" for record in confirmed)

    again = here.tune()
    measured = [record.digest for record in here.store.all() if record.kind == "metaschedule"]
    unconfirmed = [r.digest for r in here.store.all() if r.kind == "metaschedule" and not r.confirmed]
    assert again.to_json()["trials"] > 0
    assert len(unconfirmed) == len(set(unconfirmed)), "no candidate is measured twice"
    assert measured

    built = build(here.model, find_target("local"), here.store, tmp_path / "out")
    assert sum(decision.tuned for decision in built.decisions) == 2
    assert {decision.source for decision in built.decisions if decision.tuned} == {"exact"}


def test_packed_code_is_tuned_over_its_choices(here: Here, tmp_path: Path) -> None:
    here.model = load_model(here.model.source, ModelOptions())
    first = here.tune(trials=1, heaviest=1)
    assert first.to_json()["trials"] == len(here.trials) == 1
    records = here.store.all()
    assert {record.kind for record in records} == {"cpu"}
    assert len({record.digest for record in records if not record.confirmed}) == 1
    assert not any(record.failure for record in records), "every choice computes what the default does"

    again = here.tune(trials=400, heaviest=1)  # all there are
    found = [record.digest for record in here.store.all() if not record.confirmed]
    assert len(found) == len(set(found)) == 1 + again.to_json()["trials"] > 1
    assert here.tune(trials=400, heaviest=1).to_json()["trials"] == 0, "nothing is left to try"

    built = build(here.model, find_target("local"), here.store, tmp_path / "out")
    assert [decision.source for decision in built.decisions if decision.tuned] == ["exact"]


@pytest.mark.parametrize(
    ("trials", "sizes", "given"),
    [
        (10, [None, None], [5, 5]),
        (11, [None, None, None], [4, 4, 3]),
        (10, [0, 2, None], [0, 2, 8]),
        (10, [1, 2, 3], [1, 2, 3]),
        (2, [None, None, None], [1, 1, 0]),
        (5, [], []),
    ],
)
def test_trials_go_to_tasks_that_have_candidates(
    trials: int, sizes: list[int | None], given: list[int]
) -> None:
    assert shares(trials, sizes) == given


def test_named_tasks_alone_are_tuned(here: Here) -> None:
    _, tasks = plan(here.model, find_board("local"), TuneOptions())
    result = here.tune(trials=2, heaviest=None, tasks=(tasks[1].id,))
    assert [tuned.task.id for tuned in result.tasks] == [tasks[1].id]


def test_unknown_task_lists_the_known_ones(here: Here) -> None:
    with pytest.raises(UsageError, match=r"--tasks nosuch: is no task of this network: [0-9a-f]{8} \("):
        here.tune(tasks=("nosuch",))


def test_candidates_that_all_fail_end_the_run_with_the_first_reason(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_default = workbench.Workbench.compile
    calls = 0

    def broken(self: workbench.Workbench, modules: list) -> list[Compiled]:
        nonlocal calls
        calls += 1
        if calls <= 2:  # the defaults of the two tasks
            return compile_default(self, modules)
        return [Compiled(None, "build", "LLVM ERROR: no such instruction") for _ in modules]

    monkeypatch.setattr(workbench.Workbench, "compile", broken)
    with pytest.raises(
        ToolchainError, match=r"all 4 candidates of the first round failed.*no such instruction"
    ):
        here.tune()
    assert {record.failure for record in here.store.all()} == {"build"}


def test_server_killed_in_mid_run_costs_one_trial_at_most(here: Here) -> None:
    def kill_once(event: Event) -> None:
        here.events.append(event)
        if len(here.trials) == 1 and isinstance(event, Trial):
            for child in psutil.process_iter(["name"]):
                with suppress(psutil.Error):  # a child of the server's may just have ended
                    if child.info["name"].startswith("edge-rt") and _is_ours(child):
                        child.kill()

    how = TuneOptions(trials=4, heaviest=2, **QUICK)  # type: ignore[arg-type]
    result = tune(here.model, [find_board("local")], here.store, how, kill_once)
    assert result.to_json()["trials"] == 4
    assert result.to_json()["failed"] <= 1


def _is_ours(process: psutil.Process) -> bool:
    return (
        os.environ["TOOLCHAIN_STATE_DIR"] in " ".join(process.cmdline())
        or os.environ["TOOLCHAIN_STATE_DIR"] in process.cwd()
    )


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


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_run_keeps_its_trials_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: signal.Signals
) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    model = written(tmp_path)
    child = subprocess.Popen(
        _command(model, "--trials", "400", "--repeat", "1"),
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
        child.send_signal(sign)
        child.wait(120)
    finally:
        child.kill()
        child.wait()
    if sign == signal.SIGINT:
        assert child.returncode == 130
    with RecordStore(tmp_path / "data" / FILE_NAME) as store:
        assert len(store.all()) >= 3
    until(lambda: not any(process.is_running() for process in mine))
    until(lambda: lab.status() is None)

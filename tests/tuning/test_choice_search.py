"""What the search over choices proposes, and which records it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.building.network import written
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.dense.choice import DenseChoice
from toolchain.backends.packed.algorithms.depthwise.choice import DepthwiseChoice
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.kinds import CPU
from toolchain.backends.tensorir.kinds import METASCHEDULE
from toolchain.backends.tensorir.traces import function_json
from toolchain.errors import ToolchainError
from toolchain.lowering.tasks import Task, tasks_for
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.records.key import RecordKey
from toolchain.records.record import Provenance, Record
from toolchain.records.store import RecordStore
from toolchain.tuning.candidate import Candidate
from toolchain.tuning.choice_search import ChoiceSearch
from toolchain.tuning.result import TunedTask

MACHINE = machines.SSE.of(2)
PROVENANCE = Provenance("run-1", "local", "f00d", "0.27", "0.1.14", "0.1.0")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    model = load_model(str(written(tmp_path_factory.mktemp("network"))), ModelOptions())
    return tasks_for(model, load_profile("x86_64"))


@pytest.fixture
def stem(tasks: list[Task]) -> Task:
    """Return the network's first convolution."""
    return next(task for task in tasks if (8, 3, 3, 3) in task.shapes)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as opened:
        yield opened


def recorded(task: Task, candidate: Candidate, *, payload: str | None = None) -> Record:
    """Return the record of a candidate that ran."""
    key = RecordKey(task.workload, "x86_64-linux-gnu", "x86-64", "x86-64", 2, "x86_64")
    return Record(
        key,
        "",
        candidate.kind,
        candidate.payload if payload is None else payload,
        candidate.digest,
        PROVENANCE,
        (1.0,),
    )


def proposed(search: ChoiceSearch, trials: int) -> list[str]:
    with search.batches(trials, 2) as batches:
        found = []
        for batch in batches:
            assert 1 <= len(batch) <= 2
            found += [candidate.payload for candidate in batch]
            search.learn([])
    return found


def test_what_was_measured_is_not_proposed_again(stem: Task, store: RecordStore) -> None:
    search = ChoiceSearch(stem, MACHINE, use_winograd=True)
    default = search.default()
    assert (default.kind, json.loads(default.payload)["algorithm"]) == (CPU, "direct")
    size = search.size
    first = proposed(search, 3)
    assert len(first) == 3 <= size
    assert default.payload not in first
    with search.batches(3, 3) as batches:
        for candidate in next(batches):
            record = recorded(stem, candidate)
            function = store.add_function(stem.workload, stem.name, function_json(stem.func))
            store.add(
                Record(record.key, function, CPU, candidate.payload, candidate.digest, PROVENANCE, (1.0,))
            )
    search.learn_earlier(store, record.key)
    assert search.size == size - 3
    assert not set(first) & set(proposed(search, size))


def test_a_choice_is_the_same_candidate_with_and_without_winograd(stem: Task) -> None:
    own, whole = (ChoiceSearch(stem, MACHINE, use_winograd=each).default() for each in (False, True))
    assert (own.kind, own.payload) == (CPU, whole.payload)
    assert own.digest == whole.digest  # what one has measured need not be measured for the other


def test_what_the_general_rule_computes_has_nothing_to_try(tasks: list[Task]) -> None:
    pool = next(task for task in tasks if task.name.endswith("max_pool2d"))
    search = ChoiceSearch(pool, MACHINE, use_winograd=True)
    assert search.default().payload == GENERAL.to_json()
    assert search.size == 0
    assert proposed(search, 8) == []


def test_a_record_gives_the_same_code_as_its_candidate(stem: Task) -> None:
    search = ChoiceSearch(stem, MACHINE, use_winograd=True)
    search.default()
    with search.batches(1, 1) as batches:
        (candidate,) = next(batches)
    again = search.recorded(recorded(stem, candidate), "")
    assert (again.payload, again.digest) == (candidate.payload, candidate.digest)
    assert again.module["main"].script() == candidate.module["main"].script()


def test_a_record_of_the_general_rule_is_taken(stem: Task) -> None:
    search = ChoiceSearch(stem, MACHINE, use_winograd=True)
    default = search.default()
    found = search.recorded(recorded(stem, default, payload=GENERAL.to_json()), "")
    assert found.module["main"].script() != default.module["main"].script()


@pytest.mark.parametrize(
    "payload",
    [
        DirectChoice(blocks=64).to_json(),  # more blocks than there are channels: writes beyond the output
        DirectChoice(columns=1000).to_json(),
        DepthwiseChoice().to_json(),
        DenseChoice().to_json(),
        '{"algorithm":"quantum"}',
        "{",
        "",
    ],
)
def test_a_record_that_is_none_of_the_task_is_refused(stem: Task, payload: str) -> None:
    search = ChoiceSearch(stem, MACHINE, use_winograd=True)
    with pytest.raises(ToolchainError, match="choice"):
        search.recorded(recorded(stem, search.default(), payload=payload), "")


def test_a_run_says_what_won(stem: Task) -> None:
    search = ChoiceSearch(stem, MACHINE, use_winograd=True)
    default = recorded(stem, search.default())
    with search.batches(1, 1) as batches:
        (candidate,) = next(batches)
    other = recorded(stem, candidate)
    trace = replace(other, kind=METASCHEDULE, payload="{}")
    won = [TunedTask(stem, 1, 0, default, 2.0, choice).won for choice in (default, other, trace)]
    assert won == ["default", "direct", "metaschedule"]

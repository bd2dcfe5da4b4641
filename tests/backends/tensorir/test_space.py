"""The schedules of a task: drawn, changed, written down and read back."""

from __future__ import annotations

from random import Random

import pytest
from tvm.tirx import PrimFunc

from tests.building.network import written
from toolchain.backends.table import backend_for
from toolchain.backends.tensorir.space import THE_DEFAULT, TraceSpace
from toolchain.backends.tensorir.traces import schedule_from
from toolchain.errors import ToolchainError, UsageError
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.tasks.candidate import Entry
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.tuners.table import GridSearch, RandomSearch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> TraceSpace:
    """Return the space of the network's heaviest convolution."""
    backend = backend_for(load_profile("x86_64"), CodeOptions(layout="NCHW"))
    model = load_model(str(written(tmp_path_factory.mktemp("network"))), ModelOptions())
    with backend.lower(model, backend.target()) as network:
        found = network.space(network.tasks[0])
    assert isinstance(found, TraceSpace)
    return found


def test_random_draws_schedules_that_apply(space: TraceSpace) -> None:
    points = RandomSearch(space.task, space, 1).propose(4)
    assert len({point.entry.digest for point in points}) == 4
    codes = {space.candidate(point).code for point in [THE_DEFAULT, *points]}
    assert len(codes) == 5
    again = RandomSearch(space.task, space, 1).propose(4)
    assert again == points


def test_what_is_written_down_reads_back(space: TraceSpace) -> None:
    for point in (THE_DEFAULT, space.sample(Random(1))):
        read = space.read(space.entry(point), space.task.definition)
        assert read == point and space.legal(read)
        assert space.candidate(read).code == space.candidate(point).code


def test_neighbours_are_other_schedules(space: TraceSpace) -> None:
    point = space.sample(Random(1))
    near = space.neighbours(point, Random(1))
    assert near and point not in near
    assert all(space.legal(each) for each in near)
    assert space.neighbours(THE_DEFAULT, Random(1)) == []


def test_features_are_as_many_for_each(space: TraceSpace) -> None:
    rows = [space.features(point) for point in (THE_DEFAULT, space.sample(Random(1)))]
    assert len(rows[0]) == len(rows[1]) > 100
    assert rows[0] != rows[1]


def test_damage_is_told(space: TraceSpace) -> None:
    for payload in ("", "{", "[]", '{"trace": 3}', '{"trace": [1, 2]}', '{"arguments": []}'):
        with pytest.raises(ToolchainError, match="no longer applies"):
            space.read(Entry("metaschedule", payload, "digest"), space.task.definition)


def test_what_does_not_apply_is_told_when_it_is_asked_for(space: TraceSpace) -> None:
    nonsense = Entry("metaschedule", '{"trace": [[["Nonsense", [], [], []]], []], "arguments": []}', "digest")
    point = space.read(nonsense, space.task.definition)
    assert not space.legal(point)
    for use in (space.check, lambda damaged: space.candidate(damaged).code.objects("main"), space.features):
        with pytest.raises(ToolchainError, match="no longer applies"):
            use(point)


def test_a_trace_is_applied_once(space: TraceSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[str] = []

    def counted(payload: str, definition: str, func: PrimFunc) -> PrimFunc:
        applied.append(payload)
        return schedule_from(payload, definition, func)

    monkeypatch.setattr("toolchain.backends.tensorir.space.schedule_from", counted)
    drawn = space.sample(Random(7))
    point = space.read(space.entry(drawn), space.task.definition)
    assert not applied, "what is read is not applied"
    space.check(point)
    code = space.candidate(point).code
    twin = space.task.func.with_attr("global_symbol", "fused_twin")
    named = space.scheduled(point, twin)
    assert named.attrs["global_symbol"] == "fused_twin" and space.candidate(point).code == code
    assert applied == [drawn.entry.payload]


def test_there_is_no_order(space: TraceSpace) -> None:
    assert space.size is None
    with pytest.raises(UsageError, match="no order"):
        space.point(3)
    with pytest.raises(UsageError, match="--tuner gridsearch"):
        GridSearch(space.task, space, 1)

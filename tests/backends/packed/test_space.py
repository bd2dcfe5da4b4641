"""The choices of a task: their order, their places, and what records say of them."""

from __future__ import annotations

from random import Random
from typing import assert_type

import pytest

from tests.building.network import written
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.dense.loops import DenseChoice
from toolchain.backends.packed.algorithms.depthwise.algorithm import DepthwiseChoice
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.backends.packed.machines import OPENCL, SSE
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.space import PackedSpace
from toolchain.backends.table import backend_for
from toolchain.errors import ToolchainError
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Entry
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.tuner import Result, Space, Tuner
from toolchain.tuning.tuners.table import GridSearch

TARGET = target_for(load_profile("x86_64"))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> list[FusedTask]:
    model = load_model(str(written(tmp_path_factory.mktemp("network"))), ModelOptions())
    backend = backend_for(load_profile("x86_64"), CodeOptions())
    with backend.lower(model, TARGET) as network:
        return list(network.tasks)


@pytest.fixture(scope="module")
def stem(tasks: list[FusedTask]) -> FusedTask:
    """Return the network's first convolution."""
    return next(task for task in tasks if (8, 3, 3, 3) in task.shapes)


def space(task: FusedTask, *, winograd: bool = True) -> PackedSpace:
    return PackedSpace(task, TARGET, Choices(SSE.of(2), winograd))


def test_points_have_places_and_the_default_the_first(stem: FusedTask) -> None:
    found = space(stem)
    points = [found.point(index) for index in range(found.size)]
    assert points[0] == found.default()
    assert len(set(points)) == len(points) > 3
    assert [found.index(point) for point in points] == list(range(found.size))
    assert all(found.legal(point) for point in points)
    assert len({found.entry(point).digest for point in points}) == len(points)
    assert {found.rule(point) for point in points} == {"direct"}  # of stride 2


def test_an_entry_gives_its_point_back(stem: FusedTask) -> None:
    found = space(stem)
    for index in range(found.size):
        entry = found.entry(found.point(index))
        assert found.read(entry, stem.definition) == found.point(index)


def test_samples_and_neighbours_are_points(stem: FusedTask) -> None:
    found, random = space(stem), Random(1)
    assert {found.index(found.sample(random)) for _ in range(200)} == set(range(found.size))
    default = found.default()
    near = found.neighbours(default, random)
    assert near and default not in near
    for point in near:
        found.index(point)
        assert default in found.neighbours(point, random)


def test_points_of_a_device_are_decided_alike(tasks: list[FusedTask]) -> None:
    """Only some of its choices say how work items are grouped: tuners ask that of each of them."""
    several = False
    for task in tasks:
        found = PackedSpace(task, TARGET, Choices(OPENCL.of(4)))
        assert [found.index(point) for point in found.points] == list(range(found.size))
        assert len({frozenset(found.decisions(point)) for point in found.points}) == 1
        several |= len({point.group for point in found.points}) > 1
    assert several, "a network whose tasks have such choices"


def test_features_tell_points_apart(stem: FusedTask) -> None:
    found = space(stem)
    rows = [tuple(found.features(found.point(index))) for index in range(found.size)]
    assert len({len(row) for row in rows}) == 1
    assert len(set(rows)) == found.size


def test_without_winograd_there_is_none(tasks: list[FusedTask]) -> None:
    twins = next(task for task in tasks if (8, 3, 3, 3) in task.shapes)
    own, whole = space(twins, winograd=False), space(twins)
    assert not own.legal(WinogradChoice(tile=(2, 2)))
    assert (own.excluded, whole.excluded) == ("winograd", "")
    assert "winograd" not in {own.rule(own.point(index)) for index in range(own.size)}


def test_what_the_general_rule_computes_has_one_point(tasks: list[FusedTask]) -> None:
    pool = space(next(task for task in tasks if task.name.endswith("max_pool2d")))
    assert (pool.size, pool.default(), pool.neighbours(GENERAL, Random(1))) == (1, GENERAL, [])


def test_points_are_other_code(stem: FusedTask) -> None:
    found = space(stem)
    candidates = [found.candidate(point) for point in (found.point(0), found.point(1), GENERAL)]
    codes = {candidate.code for candidate in candidates}
    assert len(codes) == 3
    assert found.candidate(found.point(1)).code in codes
    assert all(candidate.outputs == 1 for candidate in candidates)


@pytest.mark.parametrize(
    "payload",
    [
        DirectChoice(blocks=64).to_json(),  # more blocks than channels: writes beyond the output
        DirectChoice(columns=1000).to_json(),
        DepthwiseChoice().to_json(),
        DenseChoice().to_json(),
        '{"algorithm":"quantum"}',
        "{",
        "",
    ],
)
def test_an_entry_that_is_none_of_the_task_is_refused(stem: FusedTask, payload: str) -> None:
    found = space(stem)
    entry = Entry(found.kinds[0], payload, "digest")
    with pytest.raises(
        ToolchainError, match=r"code variant unknown to this one|choice does not compute this task"
    ):
        found.read(entry, stem.definition)


def test_a_choice_is_followed_from_its_proposal_to_its_code_by_the_type_checker(stem: FusedTask) -> None:
    """mypy reads this test, too: a step that lost the type would be an error there."""
    ways: Space[Choice] = space(stem)
    tuner: Tuner[Choice] = GridSearch(stem, ways, seed=1)
    (proposed,) = assert_type(tuner.propose(1), list[Choice])
    tuner.learn([(proposed, Result((1.0,)))])
    kept = assert_type(ways.read(ways.entry(proposed), stem.definition), Choice)
    assert kept == proposed
    assert ways.candidate(kept).entry == ways.entry(proposed)

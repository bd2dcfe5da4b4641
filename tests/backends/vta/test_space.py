"""The knobs of a convolution as a space, and candidates by the cycle model."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from toolchain.backends.vta.backend import model_evaluator
from toolchain.backends.vta.space import Cut, VtaReference, VtaSpace, VtaTask
from toolchain.errors import ToolchainError
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.tuner import Result
from toolchain.tuning.tuners.table import TUNERS
from toolchain.vta.design import SAMPLES
from toolchain.vta.layers.layer import definition_of, read_shape
from toolchain.vta.layers.region import Knobs

CONFIG = SAMPLES["pynq"]
SHAPE = read_shape("1,14,14,32,48,3,3,1,1,1,1")


def task(shape: str = str(SHAPE)) -> VtaTask:
    return VtaTask("0" * 64, "conv2d", 1, 1, (), read_shape(shape))


def test_points_are_told_apart_and_read_back() -> None:
    space = VtaSpace(task(), CONFIG)
    assert space.size > 50 and space.default() == space.points[0]
    entries = [space.entry(point) for point in space.points]
    assert len({entry.digest for entry in entries}) == space.size
    assert [space.read(entry, definition_of(SHAPE)) for entry in entries] == space.points
    assert {len(space.features(point)) for point in space.points} == {18}


def test_neighbours_and_points_of_other_tasks_are_legal() -> None:
    space, other = VtaSpace(task(), CONFIG), VtaSpace(task("1,7,7,512,512,3,3,1,1,1,1"), CONFIG)
    random = Random(1)
    point = space.sample(random)
    assert space.neighbours(point, random) and all(map(space.legal, space.neighbours(point, random)))
    foreign = other.entry(other.default())
    adapted = space.adapted(foreign, definition_of(other.task.shape))
    assert adapted is not None and space.legal(adapted)
    assert len(space.foreign_features(foreign, definition_of(other.task.shape))) == 18


@pytest.mark.slow  # some learn
@pytest.mark.parametrize("name", TUNERS)
def test_each_tuner_searches_it(name: str) -> None:
    space = VtaSpace(task(), CONFIG)
    tuner = TUNERS[name](space.task, space, 1)
    tuner.learn([(space.default(), Result((5.0,), modelled=True))])
    found: list[Knobs] = []
    while points := tuner.propose(8):
        tuner.learn([(point, Result((1.0 / point.tile_co,), modelled=True)) for point in points])
        found += points
        if len(found) >= 24:
            break
    assert len(set(found)) == len(found) == 24 and all(map(space.legal, found))


@pytest.mark.parametrize("text", ["", "tile_h=5", "tile_h=0,tile_w=1,tile_ci=1,tile_co=1"])
def test_a_record_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ToolchainError, match="knobs"):
        VtaSpace(task(), CONFIG).read(Entry("vta", text, ""), definition_of(SHAPE))


def test_knobs_of_another_shape_are_refused() -> None:
    with pytest.raises(ToolchainError, match="no way to compute"):
        VtaSpace(task(), CONFIG).check(Knobs(5, 14, 1, 1))


@pytest.mark.slow  # starts edge-rt
def test_the_model_counts_and_finalists_are_computed() -> None:
    space = VtaSpace(task(), CONFIG)
    built_of = [space.candidate(point) for point in (space.default(), space.points[-1])]
    with model_evaluator(CONFIG) as evaluator:
        built = evaluator.builder.build(built_of)
        fast, slow = evaluator.runner.run(space.task, built)
        assert fast.modelled and 0 < fast.mean_ms < slow.mean_ms
        assert evaluator.runner.check(space.task, built) == [fast, slow]
        code = built[0].candidate.code
        assert isinstance(code, Cut)
        wrong = replace(built[0].candidate, code=replace(code, knobs=Knobs(5, 14, 1, 1)))
        (failed,) = evaluator.runner.run(space.task, evaluator.builder.build([wrong]))
    assert failed.failure == "build" and "tile_h=5 does not divide" in failed.message
    assert isinstance(wrong, Candidate)


def test_the_definition_is_numpys() -> None:
    (parameter,) = VtaReference(SHAPE).parameters
    assert parameter.shape == (1, 32, 14, 14)

"""The tuner of docs/howto/add-a-tuner.md searches as the page says, by the name that it gets there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.howto.page import blocks, files_planted
from tests.tuning.tuners.grid import TASK, Grid, measured
from toolchain.tasks.backend import MakeTuner
from toolchain.tuning.tuners.table import TUNERS, tuner_for

PAGE = "add-a-tuner.md"
NAME = "backwards"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeTuner[Any]]:
    """Add the page's tuner, by the line that it shows of the table."""
    with files_planted(PAGE, tmp_path) as (module,):
        (table,) = [block for block in blocks(PAGE) if block.startswith("TUNERS: ")]
        lines = dict(re.findall(r'^    "(\w+)": (\w+),$', table, re.MULTILINE))
        assert {name: TUNERS[name].__name__ for name in lines if name != NAME} == {"gridsearch": "GridSearch"}
        found: MakeTuner[Any] = getattr(importlib.import_module(module), lines[NAME])
        monkeypatch.setitem(TUNERS, NAME, found)
        yield found


def test_it_goes_through_a_space_from_its_end(make: MakeTuner[Any]) -> None:
    space = Grid(3, 6)
    tuner = make(TASK, space, 1)
    earlier = space.points[-2]
    tuner.learn([(point, measured(point)) for point in (space.default(), earlier)])
    found = [point for _ in space.points for point in tuner.propose(4)]
    assert found == [point for point in reversed(space.points) if point not in (space.default(), earlier)]
    assert tuner.propose(1) == []


def test_it_is_typed_by_its_name(make: MakeTuner[Any]) -> None:
    network: Any = SimpleNamespace(tuner="random", tuners={})
    tuner = tuner_for(network, TASK, Grid(3, 6), NAME, 1)
    assert type(tuner) is make
    assert tuner.propose(4) == list(reversed(Grid(3, 6).points))[:4]

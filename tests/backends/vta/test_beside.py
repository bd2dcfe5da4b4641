"""What the CPU computes beside a VTA: the same tasks as on the CPU alone, decided by the same records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.backends.vta.quantised import loaded
from tests.building.measured import add
from tests.models.quantising.networks import Block
from toolchain.backends.packed.kinds import CPU
from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import decide_network
from toolchain.building.decide import Decision, points
from toolchain.building.options import BuildOptions
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.tasks.backend import Network, Objects
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow  # a network is lowered

ALONE, WITH_VTA = CodeOptions(dtype="int8"), CodeOptions(device="vta:sim", dtype="int8")


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Return a network whose first convolutions lie before a pooling, where regions begin."""
    return loaded(tmp_path, (Block(8, pool=True), Block(8, shortcut="identity")))


def lowered(model: Model, code: CodeOptions) -> Network[Any]:
    backend = backend_for(find_target("local").profile, code)
    return backend.lower(model, backend.target())


@dataclass(frozen=True)
class Compiled:
    objects: Objects
    decisions: list[Decision[Any]]
    beside: list[Decision[Any]]


def compiled(
    model: Model, store: RecordStore | None, folder: Path, steps: list[str] | None = None
) -> Compiled:
    target = find_target("local")
    backend = backend_for(target.profile, WITH_VTA)
    folder.mkdir()
    options = BuildOptions(code=WITH_VTA, shipped=None)
    told = [] if steps is None else steps
    with backend.lower(model, backend.target(), compiles=True) as network:
        own, beside = decide_network(network, model, target, store, options)
        objects = network.compile(points([*own, *beside]), folder, told.append)
    return Compiled(objects, own, [each.made_by(objects.rules[each.task.name]) for each in beside])


def test_they_are_the_tasks_of_the_network_on_the_cpu_alone(model: Model) -> None:
    with lowered(model, ALONE) as alone, lowered(model, WITH_VTA) as divided:
        beside = divided.beside
        assert alone.beside is None and beside is not None
        others = {task.workload for task in alone.tasks}
        chosen = [task for task in beside.tasks if beside.space(task).size > 1]
        assert {"conv2d", "matmul"} <= {word for task in chosen for word in task.name.split("_")}
        assert {task.workload for task in chosen} <= others
        assert others.isdisjoint(task.workload for task in divided.tasks)


def test_a_record_of_the_cpu_decides_beside_a_vta(model: Model, store: RecordStore, tmp_path: Path) -> None:
    with lowered(model, ALONE) as alone:
        task = next(each for each in alone.tasks if "relu" in each.name and "conv2d" in each.name)
        point = alone.space(task).point(1)
        add(store, task, find_target("local"), CPU, alone.space(task).entry(point).payload)
        rule = alone.space(task).rule(point)
    steps: list[str] = []
    plain = compiled(model, None, tmp_path / "plain", steps)
    tuned = compiled(model, store, tmp_path / "tuned")
    left = [step for step in steps if step.startswith("left to the CPU: ")]
    assert len(left) == 2 and all(step.endswith(": before max_pool2d") for step in left)
    assert not any(decision.tuned for decision in (*plain.beside, *tuned.decisions))
    (decided,) = [decision for decision in tuned.beside if decision.tuned]
    assert decided.task.workload == task.workload and decided.improved and decided.rule == rule
    codes = [{file.read_bytes() for file in each.objects.files} for each in (plain, tuned)]
    assert codes[0] != codes[1], "what was decided is what is compiled"

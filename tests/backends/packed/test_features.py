"""What a cost model is told of choices."""

from __future__ import annotations

import pytest

from tests.backends.packed.test_space import space, tasks
from toolchain.errors import ToolchainError
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.tasks.candidate import Entry

__all__ = ["tasks"]


def test_choices_of_all_tasks_have_as_many_features_and_differ(tasks: list[FusedTask]) -> None:
    """Within a task; two tasks that differ in what follows the sums look alike."""
    lengths = set()
    for task in tasks:
        own = space(task)
        rows = {tuple(own.features(point)) for point in own.points}
        assert len(rows) == own.size
        lengths |= {len(row) for row in rows}
    assert len(lengths) == 1


def test_a_choice_has_the_same_features_seen_from_another_task(tasks: list[FusedTask]) -> None:
    """A record keeps the definition, and from that follows what the task itself would say."""
    first, second = [each for each in tasks if space(each).contraction is not None][:2]
    own, other = space(first), space(second)
    for point in own.points:
        assert other.foreign_features(own.entry(point), first.definition) == own.features(point)


def test_a_choice_of_another_task_becomes_a_legal_one(tasks: list[FusedTask]) -> None:
    first, second = [each for each in tasks if space(each).contraction is not None][:2]
    own, other = space(first), space(second)
    adapted = {point: own.adapted(other.entry(point), second.definition) for point in other.points}
    legal = [point for point in adapted.values() if point is not None]
    assert legal and all(own.legal(point) for point in legal)
    assert all(here == point for point, here in adapted.items() if point in own.points)


def test_an_entry_of_another_version_has_no_features(tasks: list[FusedTask]) -> None:
    with pytest.raises(ToolchainError):
        space(tasks[0]).foreign_features(Entry("cpu", "{}", ""), tasks[0].definition)


@pytest.mark.parametrize("definition", ["", "no definition", '{"root_index": 0, "nodes": []}'])
def test_a_damaged_definition_has_no_features(tasks: list[FusedTask], definition: str) -> None:
    own = space(tasks[0])
    with pytest.raises(ToolchainError, match="definition of a task cannot be read"):
        own.foreign_features(own.entry(own.default()), definition)

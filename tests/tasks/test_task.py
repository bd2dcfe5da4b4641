"""Tasks by the ids that users type."""

from __future__ import annotations

import pytest
from edge_toy.backend import Product

from toolchain.errors import UsageError
from toolchain.tasks.task import ID_LENGTH, tasks_named

TASKS = [Product(f"00{digit}" + 13 * "f", f"part{digit}", 1, 1, ((1, 1),) * 3) for digit in "123"]


def test_none_named_means_all() -> None:
    assert tasks_named(TASKS, [], "--tasks") == TASKS


def test_the_order_is_the_networks() -> None:
    assert tasks_named(TASKS, [TASKS[2].id, "001"], "--tasks") == [TASKS[0], TASKS[2]]
    assert len(TASKS[0].id) == ID_LENGTH


@pytest.mark.parametrize(("typed", "says"), [("00", "means several"), ("9", "no task"), ("part1", "no task")])
def test_what_names_no_single_task_is_told_with_all_there_are(typed: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"--tasks {typed}: .*{says}") as caught:
        tasks_named(TASKS, [typed], "--tasks")
    assert all(f"{task.id} ({task.name})" in caught.value.message for task in TASKS)

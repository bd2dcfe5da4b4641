"""What people are shown of a task is what a build makes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from edge_toy.backend import ToySpace

from tests.tuning.toy_run import TASK
from toolchain.building.chosen import chosen
from toolchain.errors import UsageError


def test_default_is_used_without_record() -> None:
    network: Any = SimpleNamespace(
        space=ToySpace,
        target=SimpleNamespace(device=""),
        code=lambda task, point, form: f"{form} of {task.name}: {point}",
    )
    made = chosen(network, TASK, None, "x86_64")
    space = ToySpace(TASK)
    assert made.code("tir") == f"tir of matmul: {space.default()}"
    assert str(made) == f"matmul: {space.rule(space.default())}, by default"
    assert made.to_json() == {**TASK.to_json(), "source": ""}
    with pytest.raises(UsageError, match="--explain: this code is for a CPU"):
        made.kernels(model=False)

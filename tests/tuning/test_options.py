"""What a user can say about a tuning run, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from toolchain.errors import UsageError
from toolchain.tuning.options import TuneOptions


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trials": 0}, "--trials 0: must be 1 or more"),
        ({"min_repeat_ms": -1}, "--min-repeat-ms -1: must be 0 or more"),
        ({"search_seed": 0}, "--search-seed 0: must be 1 or more"),
        ({"time_s": 0.0}, "--time 0: must be above 0"),
        ({"early_stopping": 0}, "--early-stopping 0: must be 1 or more"),
        ({"builders": "foo"}, "--builders foo: neither a number of processes"),
        ({"scheduler": "greedy"}, "--scheduler greedy: .*use one of: gradient, round-robin"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        TuneOptions(**options)


def test_the_default_scheduler_follows_the_gradient() -> None:
    assert TuneOptions().scheduler == "gradient"

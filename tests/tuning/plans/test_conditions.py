"""What a device says of itself is checked like all that boards say."""

from __future__ import annotations

import pytest

from toolchain.errors import CheckError
from toolchain.tuning.plans.answers import known_conditions


def test_what_is_known_is_kept() -> None:
    said = '{"clock_mhz": 1980.0, "temperature_c": null, "others": 0}'
    assert known_conditions("far", said) == said
    assert known_conditions("far", '{"clock_mhz": null, "temperature_c": null, "others": null}') is None
    assert known_conditions("far", "null") is None


@pytest.mark.parametrize(
    "said",
    [None, 3, "", "{}", '{"clock_mhz": -1, "temperature_c": 1.0, "others": 0}', "[" * 999, "x" * 300000],
)
def test_lies_are_refused(said: object) -> None:
    with pytest.raises(CheckError, match=r"board far: the answer of edge\.conditions cannot be right"):
        known_conditions("far", said)

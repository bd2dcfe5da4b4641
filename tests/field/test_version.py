"""Semantic versions have one order, on the board and on the host."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.field.program import Checks
from toolchain.releases.statement import Version

pytestmark = pytest.mark.slow  # the program may have to be compiled

# semver.org, paragraph 11, and numbers beyond 64 bits.
ASCENDING = (
    *(
        "1.0.0-0",
        "1.0.0-9",
        "1.0.0-10",
        "1.0.0-18446744073709551617",
        "1.0.0--",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
    ),
    *(
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.9.0",
    ),
    *("1.10.0", "2.0.0", "18446744073709551617.0.0"),
)
NONE = (
    *(
        "",
        "1",
        "1.0",
        "1.0.0.0",
        "v1.0.0",
        "01.0.0",
        "1.0.0-01",
        "1.0.0-",
        "1.0.0-a..b",
        "1.0.0+build",
        "1.0.0-a+b",
    ),
    *(" 1.0.0", "1.0.0\n", "1.0.0-ä", "-1.0.0", "1.a.0", "1..0", "1.0.0-a.", "0" * 65, "1.0.0-" + "a" * 59),
)
PARTS = st.integers(0, 30).map(str) | st.from_regex(r"[0-9a-zA-Z-]{1,4}", fullmatch=True)


def test_ascending(checks: Checks) -> None:
    for older, newer in pairwise(ASCENDING):
        assert checks.ask("order", older, newer) == -1, (older, newer)
        assert checks.ask("order", newer, older) == 1, (older, newer)
        assert checks.ask("order", newer, newer) == 0


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_version(checks: Checks, text: str) -> None:
    assert checks.ask("order", text, "1.0.0") is None


@given(one=st.lists(PARTS, max_size=3), other=st.lists(PARTS, max_size=3))
def test_the_host_has_the_same_order(checks: Checks, one: list[str], other: list[str]) -> None:
    texts = ["1.2.3" + ("-" + ".".join(parts) if parts else "") for parts in (one, other)]
    try:
        left, right = map(Version, texts)
    except ValueError:
        assert checks.ask("order", *texts) is None
    else:
        assert checks.ask("order", *texts) == (-1 if left < right else 1 if right < left else 0)

"""Trip counts, as TVM and people write loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.mali.trips import trip_counts


@pytest.mark.parametrize(
    ("loop", "turns"),
    [
        ("for (int32_t v = 0; v < 16; ++v) {", 16),
        ("for (int v_1 = 2; v_1 < 9; v_1++) {", 7),
        ("for (int ci=0; ci<64; ci+=4, xr += 4, wp += 256) {", 16),
        ("for (int ky=0; ky<3; ky++, xr += 3520) {", 3),
        ("for (int ci=0; ci<10; wp += 256, ci += 4) {", 3),
        ("for (int v = 3; v < 3; ++v) {", 0),
        ("for (int v = 0; v < n; ++v) {", None),
        ("for (int v = n; v < 8; ++v) {", None),
        ("for (int v = 0; w < 8; ++v) {", None),
        ("for (int v = 0; v < 8; v *= 2) {", None),
        ("for (int v = 0; v < 8; ++w) {", None),
        ("for (int v = 0; v < 8; v += 0) {", None),
    ],
)
def test_one_loop(loop: str, turns: int | None) -> None:
    assert trip_counts(loop) == [turns]


@given(st.integers(0, 99), st.integers(0, 99), st.integers(1, 20))
def test_it_turns_as_often_as_python_does(first: int, last: int, step: int) -> None:
    loop = f"for (int i = {first}; i < {last}; i += {step}) "
    assert trip_counts(f"{loop}for (int j = 0; j < 2; ++j) {{}}") == [len(range(first, last, step)), 2]

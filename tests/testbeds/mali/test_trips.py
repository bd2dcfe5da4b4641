"""Trip counts, as TVM and people write loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.devices.kernel import Kernel
from toolchain.testbeds.mali.estimate import Loop, loops_of


def loops(source: str) -> list[Loop]:
    return loops_of(Kernel("k", source, (8, 8, 1), (4, 2, 1)))


def trip_counts(source: str) -> list[int | None]:
    return [loop.turns for loop in loops(source)]


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
def test_trip_counts_match_python(first: int, last: int, step: int) -> None:
    loop = f"for (int i = {first}; i < {last}; i += {step}) "
    assert trip_counts(f"{loop}for (int j = 0; j < 2; ++j) {{}}") == [len(range(first, last, step)), 2]


GUARDED = """__kernel void k(__global float* x) {
  int cse_v1 = ((convert_int(get_group_id(0))) * 8);
  for (int v = 0; v < 5; ++v) { x[v] = 0; }
  if ((cse_v1 + (convert_int(get_local_id(0)))) == 0) {
    x[1] = 2;
    for (int v = 0; v < 7; ++v) {
      if (((convert_int(get_group_id(1))) < 1) && ((convert_int(get_local_id(1))) < 2)) {
        for (int w = 0; w < 3; ++w) x[w] = 1;
      }
      for (int w = 0; w < 2; ++w) { x[w] = 2; }
    }
  } else {
    for (int v = 0; v < 9; ++v) { x[v] = 3; }
  }
  for (int v = 0; v < 4; ++v) { x[v] = 4; }
}
"""


def test_guarded_loops_count_for_active_items() -> None:
    """Of 32 columns one is the first; of 16 rows there are two in the first group's first two."""
    assert loops(GUARDED) == [
        Loop(5),
        Loop(7, 1 / 32),
        Loop(3, 2 / 16),
        Loop(2),
        Loop(9, 31 / 32),
        Loop(4),
    ]


def test_nested_guards_multiply() -> None:
    source = (
        "if (convert_int(get_group_id(0)) == 0) if (convert_int(get_group_id(1)) == 0) "
        "for (int i = 0; i < 2; ++i) x[i] = 0; for (int i = 0; i < 3; ++i) x[i] = 0;"
    )
    assert loops(source) == [Loop(2, 1 / 8), Loop(3)]


def test_unknown_conditions_guard_nothing() -> None:
    assert loops("if (x[3] < 7) { for (int i = 0; i < 2; ++i) {} }") == [Loop(2)]
    assert loops("if (v < 7) { for (int i = 0; i < 2; ++i) {} }") == [Loop(2)]

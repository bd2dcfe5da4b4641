"""Where values lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.errors import ToolchainError
from toolchain.vta.compiling.blob import Lifetime, plan, sections


@st.composite
def _lives(draw: st.DrawFn) -> Lifetime:
    first = draw(st.integers(0, 9))
    return Lifetime(draw(st.integers(1, 5000)), first, draw(st.integers(first, 9)))


@given(st.dictionaries(st.text(max_size=3), _lives(), max_size=12))
def test_values_alive_together_do_not_overlap(lives: dict[str, Lifetime]) -> None:
    places, size = plan(lives)
    for name, life in lives.items():
        assert places[name] % 64 == 0 and places[name] + life.size <= size
        for other, its in lives.items():
            if other != name and life.first <= its.last and its.first <= life.last:
                assert places[name] + life.size <= places[other] or places[other] + its.size <= places[name]


def test_memory_of_dead_values_is_reused() -> None:
    chain = {f"{step}": Lifetime(6400, step, step + 1) for step in range(10)}
    assert plan(chain)[1] == 2 * 6400


def test_sections_are_page_aligned() -> None:
    assert sections({"a": 1, "b": 4096, "c": 0, "d": 5}) == ({"a": 0, "b": 4096, "c": 8192, "d": 8192}, 12288)


def test_oversized_program_names_the_remedy() -> None:
    with pytest.raises(ToolchainError) as refused:
        sections({"activations": 2**20, "constants": 32 * 2**20})
    assert "33.0 MiB" in refused.value.message and "32.0 MiB constants" in refused.value.message
    assert "--stop-pack" in refused.value.hint

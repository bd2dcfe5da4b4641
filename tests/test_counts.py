"""Numbers in messages have their noun in the right number."""

from __future__ import annotations

from toolchain.counts import counted


def test_one_is_singular_and_all_other_numbers_are_plural() -> None:
    assert [counted(number, "board") for number in (0, 1, 2)] == ["0 boards", "1 board", "2 boards"]
    assert counted(1, "entry", "entries") == "1 entry" and counted(3, "entry", "entries") == "3 entries"
    assert counted(1, "more task") == "1 more task"

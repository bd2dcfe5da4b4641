"""A case is files that other processes read: numbers, and what must come of them once that is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toolchain.tasks.candidate import write_case


def test_arguments_come_back_by_their_places(tmp_path: Path) -> None:
    arguments = {0: np.arange(6, dtype=np.float32).reshape(2, 3), 2: np.array([True, False])}
    case = write_case(tmp_path, "one", arguments)
    back = case.arguments()
    assert back.keys() == {0, 2}
    assert all(np.array_equal(back[place], value) for place, value in arguments.items())
    assert back[2].dtype == bool


def test_what_must_come_of_it_is_not_known_before_it_is_said(tmp_path: Path) -> None:
    case = write_case(tmp_path, "one", {})
    assert case.expected() is None
    case.expect([np.full(index, index, np.float16) for index in range(12)])
    expected = case.expected()
    assert expected is not None and [len(each) for each in expected] == list(range(12)), "in their order"


def test_cases_of_one_folder_do_not_meet(tmp_path: Path) -> None:
    one, other = (write_case(tmp_path, name, {0: np.zeros(1)}) for name in ("one", "other"))
    one.expect([np.ones(1)])
    assert other.expected() is None

"""Every attack of the table against both ends: each refuses it, for the reason that the table has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.field.attacks.attack import Attack, Passes
from tests.field.attacks.ends import board_says, host_says
from tests.field.attacks.table import ATTACKS, PAGE, page

_EACH = pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])


@_EACH
def test_the_host_refuses(attack: Attack, tmp_path: Path) -> None:
    for scene in attack.scenes:
        said = host_says(scene, tmp_path)
        if isinstance(attack.host, Passes):
            assert said == ""
        else:
            assert attack.host in said


@pytest.mark.slow  # the installer may have to be compiled
@_EACH
def test_the_board_refuses(attack: Attack, tmp_path: Path) -> None:
    for number, scene in enumerate(attack.scenes):
        said = board_says(scene, tmp_path / str(number))
        assert said == ("" if isinstance(attack.board, Passes) else attack.board)


def test_the_page_says_what_the_tests_do() -> None:
    assert PAGE.read_text() == page(), "python -m tests.field.attacks.table"

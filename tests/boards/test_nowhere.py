"""A board class where no board is needed."""

from __future__ import annotations

import pytest

from toolchain.boards.board import class_alone
from toolchain.boards.inventory.lookup import find_measured
from toolchain.boards.transport import LostError
from toolchain.errors import UsageError


def test_class_replaces_board_for_modelled_tuning() -> None:
    (board,) = find_measured("rk3399", on_boards=False)
    assert (board.name, board.record_class, board.emulated) == ("rk3399", "rk3399", False)
    with pytest.raises(UsageError, match="board class, and this step needs a board"):
        find_measured("rk3399", on_boards=True)
    assert find_measured("local", on_boards=False)[0].name == "local"


def test_class_has_no_transport() -> None:
    transport = class_alone("rk3399").transport
    with pytest.raises(LostError, match="rk3399 is a board class: there is no board to reach"):
        transport.run(["true"])

"""A board that is put aside is not handed out again, and the others are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from toolchain.boards.inventory.lookup import local_board
from toolchain.tuning.board_pool import BoardPool, PooledBoard


class Pool(BoardPool):
    """All its servers are there."""

    def __init__(self, *names: str) -> None:
        self.notices: list[str] = []
        boards = [replace(local_board(), name=name) for name in names]
        super().__init__(boards, SimpleNamespace(), self.notices.append)

    def _server_port(self, _pooled: PooledBoard) -> int:
        return 1

    def names(self, count: int) -> set[str]:
        taken = set()
        for _ in range(count):
            with self.take() as pooled:
                taken.add(pooled.board.name)
        return taken


@pytest.fixture
def pool() -> Pool:
    return Pool("a", "b")


def test_one_that_was_put_aside_is_not_taken_again(pool: Pool) -> None:
    assert pool.names(4) == {"a", "b"}
    with pool.take() as pooled:
        pool.put_aside(pooled, "its repeats vary")
    aside = pooled.board.name
    assert pool.names(4) == {"a", "b"} - {aside}
    assert pool.notices == [f"board {aside} is put aside for the rest of the run: its repeats vary"]


def test_the_last_one_stays(pool: Pool) -> None:
    for _ in range(2):
        with pool.take() as pooled:
            pool.put_aside(pooled, "hot")
    assert len(pool.notices) == 1
    assert len(pool.names(2)) == 1

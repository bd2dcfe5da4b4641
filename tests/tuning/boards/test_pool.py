"""A board that is put aside is not handed out again, and the others are."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from toolchain.boards.inventory.lookup import local_board
from toolchain.errors import ToolchainError
from toolchain.tuning.boards import pool as board_pool
from toolchain.tuning.boards.pool import BoardPool, PooledBoard


class FakeRevival:
    """Is at work for as long as it is told."""

    def __init__(self) -> None:
        self.at_work, self.closed = True, False
        self.watched: list[str] = []

    def watch(self, pooled: PooledBoard) -> None:
        self.watched.append(pooled.board.name)

    def close(self) -> None:
        self.closed = True


class Pool(BoardPool):
    """All its servers are there."""

    def __init__(self, *names: str, revival: FakeRevival | None = None) -> None:
        self.notices: list[str] = []
        boards = [replace(local_board(), name=name) for name in names]
        super().__init__(boards, SimpleNamespace(), self.notices.append, revival)

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
    done = []
    for _ in range(2):
        with pool.take() as pooled:
            done.append(pool.put_aside(pooled, "its repeats vary"))
    assert done == [True, False]
    assert len(pool.notices) == 1
    assert len(pool.names(2)) == 1


def test_one_of_two_stays_while_the_other_is_away(pool: Pool) -> None:
    a, b = pool.all
    pool.leave_out(b, "no server")
    assert not pool.put_aside(a, "its repeats vary")
    assert not pool.let_cool(a, "hot")


def test_one_that_nobody_has_taken_is_put_aside_too(pool: Pool) -> None:
    assert pool.put_aside(pool.all[0], "slow")
    assert pool.names(2) == {"b"}
    pool.leave_out(pool.all[0], "no server")
    assert len(pool.notices) == 1, "nobody waits for it"


def test_one_that_is_hot_is_left_out_for_a_while(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    hot, _other = pool.all
    assert pool.let_cool(hot, "it has 80 °C")
    assert pool.names(2) == {"b"}
    later = time.monotonic() + 31
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with pool.take() as first, pool.take() as second:
        assert {first.board.name, second.board.name} == {"a", "b"}
    assert pool.notices == ["board a cools down for 30 s: it has 80 °C", "board a is back"]
    assert pool.let_cool(hot, "it has 80 °C")
    assert pool.notices[-1] == "board a cools down for 60 s: it has 80 °C"


def test_a_run_does_not_end_while_a_board_is_being_revived(monkeypatch: pytest.MonkeyPatch) -> None:
    revival = FakeRevival()
    pool = Pool("a", revival=revival)
    monkeypatch.setattr(board_pool, "ALL_AWAY_S", 0.0)
    pool.leave_out(pool.all[0], "silent")
    assert revival.watched == ["a"]
    pool._check_some_there()
    revival.at_work = False
    time.sleep(0.01)
    with pytest.raises(ToolchainError, match="no board could be reached"):
        pool._check_some_there()
    pool.close()
    assert revival.closed
    pool.leave_out(pool.all[0], "the run is ending")
    assert revival.watched == ["a"]

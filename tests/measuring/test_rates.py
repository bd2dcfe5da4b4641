"""What `edge-rt probe` says of a board, when it is believed, and what is said when it failed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import Installed
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.transport import Completed, DeadlineError, Transport
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.measuring import rates
from toolchain.measuring.rates import measure_rates


def said(**changes: Any) -> dict[str, Any]:
    def together(threads: int) -> dict[str, Any]:
        return {
            "threads": threads,
            "cpu_share": 0.5,
            "products": [{"name": "avx2", "type": "float32", "gops": 123.4567 * threads}],
            "reads": [{"name": name, "kib": 16, "gb_s": 40.0} for name in ("l1", "l2", "memory")],
        }

    cluster = {"core": "x86", "cores": 2, "l1_kib": None, "l2_kib": 1024, "l3_kib": None}
    clusters = [{**cluster, "one": together(1), "all": together(2)}]
    fingerprint = "0123456789abcdef"
    return {"version": "1.2", "fingerprint": fingerprint, "family": None, "clusters": clusters, **changes}


class Answers:
    """A transport whose board gives one answer."""

    def __init__(self, answer: object, code: int = 0) -> None:
        self.answer, self.code = answer, code

    def run(self, argv: list[str], *, timeout: float) -> Completed:
        assert "probe" in argv and timeout > 0
        if isinstance(self.answer, BaseException):
            raise self.answer
        text = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        return Completed(tuple(argv), self.code, text, b"edge-rt: words\n")


@pytest.fixture
def board(state: object, monkeypatch: pytest.MonkeyPatch) -> Board:
    assert state
    installed = Installed("bin/edge-rt", cast(Any, None))
    monkeypatch.setattr(rates, "install", lambda _board, _progress: installed)
    return local_board()


def ask(board: Board, answer: object, code: int = 0) -> Any:
    return measure_rates(replace(board, transport=cast(Transport, Answers(answer, code))))


def test_probe_answer_becomes_rates(board: Board) -> None:
    found = ask(board, said())
    assert (found.edge_rt, found.cpu_share) == ("1.2 0123456789ab", 0.5)
    (cluster,) = found.clusters
    assert cluster.one.gops == {"avx2": 123}
    assert cluster.all.gops == {"avx2": 247}
    assert cluster.one.gb_s == {"l1": 40, "l2": 40, "memory": 40}


def test_refuses_to_measure_emulated_board(board: Board) -> None:
    with pytest.raises(UsageError, match="the speeds of an emulator"):
        measure_rates(replace(board, emulated=True))


def _without_memory() -> dict[str, Any]:
    answer = said()
    answer["clusters"][0]["one"]["reads"].pop()
    return answer


def _with(product: dict[str, Any]) -> dict[str, Any]:
    answer = said()
    answer["clusters"][0]["one"]["products"] = [product]
    return answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"[1]", ""),
        (said(clusters=[]), "clusters"),
        (said(version=3), "version"),
        (said(family="x" * 99), "family"),
        (_without_memory(), "memory is missing"),
        (_with({"name": "avx2", "gops": -1.0}), "gops"),
        (_with({"name": "avx2", "gops": 1e9}), "gops"),
        (_with({"name": "\x1b[2J", "gops": 1.0}), "name"),
        (b"9" * 300_000, "bytes"),
    ],
)
def test_refuses_impossible_probe_answer(board: Board, answer: object, words: str) -> None:
    with pytest.raises(CheckError, match="board local: the answer of `edge-rt probe`") as raised:
        ask(board, answer)
    assert words in raised.value.message


def test_probe_failure_is_explained(board: Board) -> None:
    failed = {"error": {"kind": "busy", "message": "another measurement is running"}}
    for answer, code, words in (
        (failed, 75, "another measurement is running"),
        (b"", 1, "words"),
        (DeadlineError("too long", ""), 0, "did not end and was killed"),
    ):
        with pytest.raises(ToolchainError, match=words) as raised:
            ask(board, answer, code)
        assert "toolchain board status local" in (raised.value.hint or "")

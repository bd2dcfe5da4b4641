"""What a caller may choose of an execution and of its sampling."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import toolchain
from toolchain.api import bundles
from toolchain.boards.board import Board
from toolchain.bundles.read import Bundle
from toolchain.errors import UsageError
from toolchain.measuring.execution import Execution, OnBoard, Sampling


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"number": 0}, "--number 0"),
        ({"repeat": 0}, "--repeat 0"),
        ({"min_repeat_ms": -1}, "--min-repeat-ms -1"),
        ({"time_s": -1.0}, "--time -1"),
    ],
)
def test_refuses_sampling_without_samples(options: dict[str, float], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Sampling(**options)


def test_time_limits_sampling_unless_samples_are_counted() -> None:
    assert Sampling().budget_s == 10
    assert Sampling(repeat=3).budget_s is None and Sampling(repeat=3).most_samples == 3
    assert Sampling(repeat=3, time_s=2).budget_s == 2


@pytest.mark.parametrize(("emulated", "count"), [(True, 1), (False, 3)])
def test_emulated_boards_warm_up_once(emulated: bool, count: int) -> None:
    board = SimpleNamespace(emulated=emulated)
    assert Sampling().warmups(board) == count
    assert Sampling(warmup=0).warmups(board) == 0


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The arguments of each execution that the functions of `import toolchain` begin."""
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(bundles, "run_bundle", lambda *arguments, **_pad: calls.append(arguments))
    return calls


BOARD = object.__new__(Board)
BUNDLE = object.__new__(Bundle)


def test_keywords_of_the_python_interface_become_objects(executed: list[tuple[object, ...]]) -> None:
    toolchain.run(BUNDLE, {}, BOARD)
    toolchain.run(
        BUNDLE,
        {},
        BOARD,
        device="cuda:1",
        threads=2,
        cluster="cortex-a53",
        spin_us=0,
        graph=False,
        timeout=3.0,
        wait=4.0,
        progress=print,
    )
    assert executed == [
        (BUNDLE, OnBoard(BOARD), {}, Execution()),
        (BUNDLE, OnBoard(BOARD, 3.0, 4.0, print), {}, Execution("cuda:1", 2, "cortex-a53", 0, False)),
    ]


def test_refuses_unknown_keyword(executed: list[tuple[object, ...]]) -> None:
    with pytest.raises(TypeError, match="thread"):
        toolchain.run(BUNDLE, {}, BOARD, thread=2)  # type: ignore[call-arg]
    assert executed == []

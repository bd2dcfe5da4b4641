"""The table on a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from tests.cli.tuning.runs import CONV, DENSE, batch, begun
from toolchain.cli.tuning.live import draw
from toolchain.cli.tuning.text import Standing
from toolchain.tuning.events import Began, Event, StepBegan, TurnBegan


def drawn(events: list[Event], width: int = 120, height: int = 40) -> list[str]:
    standing = Standing()
    for event in events:
        standing.take(event)
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    with console.capture() as captured:
        console.print(draw(standing, height))
    return captured.get().splitlines()


def test_the_table_is_the_tutorials() -> None:
    header, conv, dense, total, step = drawn([*begun(), *batch(), TurnBegan(DENSE, 4)])
    assert header.split() == ["ID", "NAME", "BEST", "SPEED", "TRIALS"]
    assert conv.split() == [
        "44fe76e2",
        "fused_conv2d",
        "1.000",
        "ms",
        "8.000",
        "GFLOP/s",
        "3",
        "(1",
        "failed)",
    ]
    assert dense.split() == ["90ab12cd", "fused_dense", "1.000", "ms", "1.000", "GFLOP/s", "0"]
    assert total == (
        "These tasks: 4.000 ms per inference (7.000 ms without tuning)  Trials: 3/20  0 s  "
        "At work on: 90ab12cd"
    )
    assert step.strip() == "searching"


def test_before_there_are_tasks_it_is_a_line() -> None:
    assert drawn([StepBegan("finding the tasks")]) == ["finding the tasks"]


def test_a_low_terminal_shows_the_tasks_whose_turn_it_is() -> None:
    tasks = tuple(replace(CONV, workload=f"{number:08x}{'0' * 8}") for number in range(30))
    lines = drawn([Began(tasks, 90), TurnBegan(tasks[25], 4)], height=10)
    assert [line.split()[0] for line in lines[1:5]] == ["00000000", "00000001", "00000002", "00000019"]
    assert lines[5] == "… 26 more tasks" and len(lines) < 10


def test_a_name_is_no_markup_and_its_control_characters_are_shown() -> None:
    evil = replace(CONV, name="[red]evil\x1b[31m")
    lines = drawn([Began((evil,), 3)])
    assert "[red]evil\\x1b[31m" in lines[1]

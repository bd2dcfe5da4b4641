"""Logs of commands of every kind, for tests of what the page shows."""

from __future__ import annotations

from toolchain.events.lines import (
    EndLine,
    LeftOutLine,
    ListedTask,
    NoticeLine,
    StepLine,
    TasksLine,
    TrialLine,
    TurnLine,
)
from toolchain.events.log import EventLog
from toolchain.events.rollouts import (
    BoardDone,
    BoardMoved,
    BoardOutcome,
    GateJudged,
    PhaseStarted,
    RolloutBegan,
    Rules,
)

EVIL = "<img src=x onerror=document.title='owned'>"
TASKS = ("fused_conv2d_add_relu", "fused_depthwise_conv2d_add_relu", "fused_dense_add", EVIL)


def tuning() -> EventLog:
    """Begin a run of 64 trials, and let it do 24."""
    log = EventLog()
    log.begin("tune", "zoo:mobilenet", ("local", "b2"))
    tasks = tuple(
        ListedTask(id=f"{number}4fe76e2", name=name, weight=number + 1, flops=10**8)
        for number, name in enumerate(TASKS)
    )
    log.write(TasksLine(tasks=(*tasks, ListedTask(id="left", name="left", weight=1, flops=1)), trials=64))
    log.write(LeftOutLine(tasks=("left",)))
    for task in tasks:
        log.write(TrialLine(task=task.id, stage="default", number=0, ms=4.0, best_ms=4.0, board="local"))
    log.write(StepLine(text="searching"))
    best = {task.id: 4.0 for task in tasks}
    for number in range(1, 25):
        measured = tasks[number % 4].id
        ms = None if number % 7 == 0 else 4.0 / (1 + number % 5 / 4)
        best[measured] = min(best[measured], ms or 4.0)
        log.write(
            TrialLine(
                task=measured,
                stage="search",
                number=number,
                ms=ms,
                best_ms=best[measured],
                failure=None if ms else "timeout",
                board="local",
                temperature_c=61.5,
            )
        )
    log.write(TurnLine(task=tasks[0].id, begins=True))
    log.write(NoticeLine(text="board b2 is away: it does not answer"))
    return log


def building() -> EventLog:
    """Begin a build, and let it compile."""
    log = EventLog()
    log.begin("build", f"{EVIL}.onnx for rk3399")
    log.write(StepLine(text="compiling 30/73 functions"))
    return log


def rollout() -> EventLog:
    """Begin a rollout to 40 boards: four have it, one failed, three receive."""
    log = EventLog()
    names = tuple(f"field-{number}" for number in range(40))
    log.begin("deploy", "camera 1.4.0", names)
    log.write_rollout(
        RolloutBegan(
            id="r1",
            app="camera",
            version="1.4.0",
            digest="ab" * 32,
            lab=None,
            phases=(names[:4], names[4:]),
            rules=Rules(),
        )
    )
    log.write_rollout(PhaseStarted(phase=1))
    installed = BoardOutcome(state="installed", bytes_sent=4_200_000)
    for name in names[:4]:
        log.write_rollout(BoardDone(board=name, phase=1, outcome=installed))
    log.write_rollout(GateJudged(phase=1, passed=True, reason="4 boards run it"))
    log.write_rollout(PhaseStarted(phase=2))
    refused = BoardOutcome(state="refused", error=f"no space left {EVIL}")
    log.write_rollout(BoardDone(board=names[4], phase=2, outcome=refused))
    for name in names[5:8]:
        log.write_rollout(BoardMoved(board=name, step="receives", sent=1_200_000))
    return log


def ended() -> None:
    """Leave logs of commands that ended in each way."""
    for kind, end in (
        ("bench", EndLine(how="done")),
        ("verify", EndLine(how="failed", message="output 'y' differs by 0.5, tolerance 0.001")),
        ("run", EndLine(how="interrupted")),
    ):
        log = EventLog()
        log.begin(kind, "small-rk3399.bundle", ("local",))
        log.end(end)


def everything() -> list[EventLog]:
    """Leave all of that in the state folder; the commands are at work as long as their logs are open."""
    ended()
    return [tuning(), building(), rollout()]

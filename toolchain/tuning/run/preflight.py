"""Before any task is touched: a kernel that is known to be good goes the whole way, to every board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.reference import Case, Probe, write_case
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.cases import compute, drawn

_AWAY = "upload"
"""How the failure of a board is called that went away."""

_NEXT = {
    "build": "`toolchain doctor` checks this host; the log of a device's driver is its own fault",
    "link": "`toolchain doctor` checks this host",
    "upload": "`toolchain lab status` and `toolchain board status` show why",
    "timeout": "--timeout S gives it more time; `toolchain board status` shows who uses the board",
    "runtime": "`toolchain board provision` renews edge-rt there",
    "work group": "correct `max_work_group` of the device in the board.toml of its class",
    "registers": "correct `max_work_group` of the device in the board.toml of its class",
    "wrong result": "leave this board out: what it measures is worth nothing",
}


def preflight(probe: Probe, evaluator: Evaluator, folder: Path) -> None:
    """Build, link, upload, run, compare and time a kernel that is known to be good, on every board.

    A board that cannot be reached is no error if there are others: it is left out for a while. Where there is
    none, the first that comes back is waited for, as in the rest of a run.

    Parameters
    ----------
    folder
        For the kernel's case, which the runner may use for as long as there is one.

    Raises
    ------
    ToolchainError
        It could not be built, a board computes it wrongly or too slowly, or none comes back in time.
        Names the step and the board.
    """
    evaluator.runner.expect(probe.task, [_case(probe, folder)])
    (built,) = evaluator.builder.build([probe.candidate])
    if built.failure:
        raise _failed("on this host", Result(failure=built.failure, message=built.message))
    results = evaluator.runner.probe(probe.task, built)
    if all(result.failure == _AWAY for result in results):
        results = evaluator.runner.run(probe.task, [built])
    _check(results)


def _case(probe: Probe, folder: Path) -> Case:
    case = write_case(folder, "probe", drawn(probe.reference.parameters, 0))
    compute(probe.reference, [case])
    return case


def _check(results: Sequence[Result]) -> None:
    away = [result for result in results if result.failure == _AWAY]
    for result in results:
        if result.failure and (result not in away or len(away) == len(results)):
            raise _failed(f"on board {result.board}", result)


def _failed(where: str, result: Result) -> ToolchainError:
    return ToolchainError(
        f"a known-good kernel fails {where}, before anything is tuned: {result.failure}: {result.message}",
        _NEXT[result.failure or "runtime"],
    )

"""Checks the whole way to every board with a known-good kernel, before any task is tuned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.tasks.candidate import Case, Probe, write_case
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.cases import compute, drawn

_AWAY = "upload"
"""The failure of a board that went away."""

_NEXT = {
    "build": "`toolchain doctor` checks this host; an error of a device's driver is the driver's fault",
    "link": "`toolchain doctor` checks this host",
    "upload": "`toolchain lab status` and `toolchain board status` show why",
    "timeout": "--timeout S gives it more time; `toolchain board status` shows who uses the board",
    "runtime": "`toolchain board provision` renews edge-rt there",
    "work group": "correct `max_work_group` of the device in the board.toml of its class",
    "registers": "correct `max_work_group` of the device in the board.toml of its class",
    "wrong result": "leave this board out: its measurements are worthless",
}


def preflight(probe: Probe, evaluator: Evaluator, folder: Path) -> None:
    """Build, link, upload, run, compare and time a known-good kernel on every board.

    A board that cannot be reached is no error if there are others: it is left out for a while. If none can be
    reached, this waits for the first that comes back.

    Parameters
    ----------
    folder
        Folder for the kernel's case, which must exist as long as the runner.

    Raises
    ------
    ToolchainError
        The kernel cannot be built, a board computes it wrongly or too slowly, or no board comes back in time.
        The message names the step and the board.
    """
    evaluator.runner.expect(probe.task, [probe_case(probe, folder)])
    (built,) = evaluator.builder.build([probe.candidate])
    if built.failure:
        raise _failed("on this host", Result(failure=built.failure, message=built.message))
    results = evaluator.runner.probe(probe.task, built)
    if all(result.failure == _AWAY for result in results):
        results = evaluator.runner.run(probe.task, [built])
    _check(results)


def probe_case(probe: Probe, folder: Path) -> Case:
    """Write the case of a known-good kernel, with its expected outputs, to a folder."""
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

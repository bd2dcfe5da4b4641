"""Checks that the results of a station are possible, before one of them is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolchain.answers import shown
from toolchain.devices.device import CPU, device_key
from toolchain.errors import UsageError
from toolchain.quantities import counted
from toolchain.records.key import RecordKey
from toolchain.tasks.key import least_task_ms
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.offline.opened import OpenedFolder
from toolchain.tuning.offline.results import FILE, StationResult, impossible
from toolchain.tuning.offline.station import result_of


def device_of(opened: OpenedFolder, kind: str) -> str:
    """Return the key of the device that measured; empty for a CPU.

    Raises
    ------
    UsageError
        Several devices measured, or none that has a name.
    """
    if kind == CPU:
        return ""
    names = {each.device for each in opened.results.values() if each.failure is None}
    if len(names) > 1:
        raise UsageError(
            f"{opened.folder}: several devices measured: {', '.join(sorted(names))}: what is fast on one "
            "says nothing about the other",
            "measure a copy of the folder on each",
        )
    if not names or names == {""}:
        raise UsageError(
            f"{opened.folder}: nothing was measured on a {kind} device that has a name", "measure again"
        )
    return device_key(kind, names.pop())


def results_of(
    opened: OpenedFolder, tasks: Sequence[Task], key_of: Callable[[str], RecordKey], board: str, kind: str
) -> dict[tuple[str, str], Result]:
    """Return the results by the workload of a task and the digest of a point.

    Those that did not compile when they were exported are among them.

    Raises
    ------
    CheckError
        A time is shorter than any hardware of its kind could take, or longer than the candidate had.
    """
    found = {}
    by_workload = {task.workload: task for task in tasks}
    for candidate in opened.about.candidates:
        place = (candidate.task, candidate.point)
        if candidate.failure:
            found[place] = Result(failure=candidate.failure, message=candidate.message)
        elif measured := opened.results.get(candidate.digest):
            task = by_workload[candidate.task]
            _check(opened, measured, least_task_ms(task, key_of(task.workload)))
            found[place] = result_of(measured, board, kind)
    return found


def _check(opened: OpenedFolder, measured: StationResult, least_ms: float) -> None:
    number = [*opened.results].index(measured.candidate) + 2
    path = opened.folder / FILE
    samples = 0 if measured.failure else opened.plan.samples
    if len(measured.ms) != samples:
        raise impossible(path, number, f"it has {counted(len(measured.ms), 'time')}, not {samples}")
    limit_s = float(opened.plan.blocks[measured.candidate][0].split(" ")[3])
    for ms in measured.ms:
        if not ms >= least_ms:
            why = f"{shown(ms)} ms, but hardware of its kind needs at least {least_ms:.3g} ms"
            raise impossible(path, number, why)
        if not ms <= limit_s * 1e3:
            raise impossible(path, number, f"{shown(ms / 1e3)} s in a process that had {limit_s:g} s")

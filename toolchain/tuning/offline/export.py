"""`tune --export`: writes compiled candidates, their operands and a plan to a folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.boards.board import Board
from toolchain.building.decide import recorded_points
from toolchain.errors import UsageError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.runtime import arch_of, ensure_runtime
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend
from toolchain.tasks.candidate import Case, record_key
from toolchain.tasks.task import Task
from toolchain.tuning.boards.cases import Cases, run_cases
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.builders.choice import compilers_for
from toolchain.tuning.events import Listener, Notice, StepBegan
from toolchain.tuning.offline import about
from toolchain.tuning.offline.about import NotExported
from toolchain.tuning.offline.packing import Packing
from toolchain.tuning.offline.proposals import SearchStart, Wanted, proposals
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans import plan
from toolchain.tuning.plans.operands import redrawn
from toolchain.tuning.run.plan import planned_tasks

PROGRAM = "edge-rt"
_BATCH = 8  # candidates that share a library, as in a live run


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes
    ----------
    candidates
        Number of candidates to measure, defaults included.
    refused
        Number of those that did not compile; they are in the folder, too, as results.
    checked
        Number of candidates that compute every case of their task, not only the first.
    """

    folder: Path
    tasks: int
    candidates: int
    refused: int
    checked: int
    bytes: int
    left_out: tuple[NotExported, ...]

    def to_json(self) -> dict[str, object]:
        """Return the result as `toolchain tune --export --json` prints it."""
        return {
            "export": str(self.folder),
            "tasks": self.tasks,
            "candidates": self.candidates,
            "refused": self.refused,
            "checked_by_every_case": self.checked,
            "bytes": self.bytes,
            "left_out": [each.model_dump() for each in self.left_out],
        }


def export(
    model: Model,
    backend: Backend[Any],
    board: Board,
    store: RecordStore,
    options: TuneOptions,
    folder: Path,
    most: int,
    listener: Listener,
) -> Exported:
    """Write what `edge-rt measure` needs to a new folder: the program, a plan, and the files that it names.

    The same command writes the same bytes. Candidates that do not fit into `most` bytes are listed.

    Raises
    ------
    UsageError
        The folder exists, nothing fits into it, or an option does not fit the model.
    ToolchainError
        The known-good kernel does not compile, or the folder cannot be written.
    """
    if folder.exists():
        raise UsageError(f"--export {folder}: it is there already", "name a new folder, or remove it")
    listener(StepBegan("finding the tasks"))
    target = backend.target(options.cluster, options.threads, integers=model.integral)
    with ExitStack() as stack:
        network = stack.enter_context(backend.lower(model, target))
        tasks = planned_tasks(network, options)
        cases = stack.enter_context(run_cases(lambda text: listener(Notice(text))))
        for task in tasks:
            space = network.space(task)
            cases.begin(task, redrawn(space.candidate(space.default()), network.reference(task)))
        recorded = {} if options.fresh else recorded_points(network, tasks, store, target, board.record_class)
        search = SearchStart(network, tasks, store, options, _keys(tasks, target, board), recorded)
        made = stack.enter_context(atomic.replacing_folder(folder.absolute()))
        runtime = ensure_runtime(arch_of(board.profile), progress=lambda text: listener(StepBegan(text)))
        shutil.copyfile(runtime.program, made / PROGRAM)
        (made / PROGRAM).chmod(0o755)
        compilers = stack.enter_context(
            closing(compilers_for(options.builders, lambda text: listener(Notice(text))))
        )
        objects = stack.enter_context(scratch_folder())
        builder = LibraryBuilder(compilers, board.profile, objects)
        packing = Packing(made, most, builder, board, target, options)
        known, left_out = _known_cases(tasks, cases, listener)
        packing.add_probe(network.probe(), objects)
        wanted = [each for each in proposals(search, options) if each.task.workload in known]
        for begin in range(0, len(wanted), _BATCH):
            listener(StepBegan(f"compiling {begin}/{len(wanted)}"))
            for batch in _groups(wanted[begin : begin + _BATCH]):
                packing.add(batch, known[batch[0].task.workload][:1])
        packing.fill()
        packing.add_cases(known)
        if not packing.count:
            raise UsageError(
                f"--max-mib {most >> 20}: not even one candidate fits; the first: "
                f"{packing.left_out[0].reason if packing.left_out else 'there is none'}",
                "give it more, or name fewer tasks: --tasks ID",
            )
        left_out += packing.left_out
        written = packing.write(
            about.FolderContents(
                plan="",
                model=model.source,
                versions=about.versions_here(),
                target=about.for_target(target, board.record_class),
                candidates=(),
                left_out=tuple(left_out),
            ),
            plan.head(runtime.fingerprint, target, options),
        )
    return Exported(
        folder, len(tasks), packing.count, packing.refused, packing.checked, written, tuple(left_out)
    )


def _keys(tasks: Sequence[Task], target: BoardTarget, board: Board) -> Mapping[str, Any]:
    return {task.workload: record_key(task.workload, target, board.record_class) for task in tasks}


def _known_cases(
    tasks: Sequence[Task], cases: Cases, listener: Listener
) -> tuple[dict[str, tuple[Case, ...]], list[NotExported]]:
    """Return the cases of the tasks whose expected outputs are known, and the other tasks."""
    known, left_out = {}, []
    for number, task in enumerate(tasks):
        listener(StepBegan(f"computing what is expected {number}/{len(tasks)}"))
        of_task = cases.of(task)
        if all(case.expected() is not None for case in of_task):
            known[task.workload] = of_task
        else:
            reason = "its definition could not be computed on this host, so nothing could be compared with it"
            left_out.append(NotExported(task=task.id, reason=reason))
    return known, left_out


def _groups(wanted: Sequence[Wanted]) -> list[list[Wanted]]:
    """Divide candidates into groups that share a library, in their order: all defaults come first."""
    groups: dict[tuple[str, str], list[Wanted]] = {}
    for each in wanted:
        groups.setdefault((each.stage, each.task.workload), []).append(each)
    return list(groups.values())

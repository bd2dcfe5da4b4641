"""An exported folder that came back: its parts fit each other, and this installation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.errors import UsageError
from toolchain.files.plain import open_plain
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Entry
from toolchain.tuning.offline.about import About, FolderContents, for_target, read_about, versions_here
from toolchain.tuning.offline.results import read_results
from toolchain.tuning.plans.answers import CandidateLine
from toolchain.tuning.plans.blocks import content_digest
from toolchain.tuning.plans.members import FOLDER
from toolchain.tuning.plans.plan import StationPlan, read_plan

_CHUNK = 1 << 20


@dataclass(frozen=True)
class OpenedFolder:
    """A folder whose digests and versions are right.

    Attributes
    ----------
    results
        Results by the digests of their candidates.
    """

    folder: Path
    plan: StationPlan
    about: FolderContents
    results: Mapping[str, CandidateLine]


def open_folder(folder: Path, target: BoardTarget, board: Board) -> OpenedFolder:
    """Read a folder and check it; files that only the station needs may be missing.

    Raises
    ------
    UsageError
        A part is missing, was changed, or is of another version or target.
    CheckError
        A result has the wrong form.
    """
    plan = read_plan(folder)
    about = read_about(folder, plan.digest)
    here = versions_here()
    for name, theirs in about.versions.model_dump().items():
        if theirs != (own := getattr(here, name)):
            raise UsageError(
                f"{folder} was exported with {name} {theirs}, this is {own}",
                "import it with the version that exported it, or export it again",
            )
    wanted = for_target(target, board.record_class)
    for name, theirs in about.target.model_dump().items():
        if theirs != (own := getattr(wanted, name)):
            raise UsageError(
                f"{folder} is for {name} {theirs or 'none'}, this command for {own or 'none'}",
                "import it with the board and the options with which it was exported",
            )
    for candidate in about.candidates:
        if candidate.digest:
            _check_candidate(folder, plan, candidate)
    for digest, size in plan.members.items():
        _check_member(folder / FOLDER / digest, digest, size)
    return OpenedFolder(folder, plan, about, read_results(folder, plan, about.versions))


def _check_candidate(folder: Path, plan: StationPlan, candidate: About) -> None:
    entry = Entry(candidate.kind, candidate.payload, candidate.point)
    lines = plan.blocks.get(candidate.digest)
    if lines is None or content_digest(lines, candidate.task, entry) != candidate.digest:
        raise UsageError(
            f"{folder}: candidate {candidate.digest[:12]} of task {candidate.task[:8]} was changed: it has "
            "another digest",
            "copy the whole folder back, or export it again",
        )


def _check_member(path: Path, digest: str, size: int) -> None:
    if not os.path.lexists(path):
        return
    found = sha256()
    try:
        with open_plain(path, links=False) as file:
            left = size + 1
            while data := file.read(min(left, _CHUNK)):
                left -= len(data)
                found.update(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "copy the folder again") from error
    if found.hexdigest() != digest:
        raise UsageError(
            f"{path} was changed: it has another digest; its results may be of other code",
            "export it again, and measure again",
        )

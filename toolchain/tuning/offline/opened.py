"""An exported folder that came back: its parts fit each other, and this installation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from toolchain.arrays import Array
from toolchain.boards.board import Board
from toolchain.errors import UsageError
from toolchain.files.plain import open_plain
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Candidate, Entry, Parameter
from toolchain.tuning.boards.cases import HALVES, rounds, tolerance_of
from toolchain.tuning.offline.about import About, FolderContents, for_target, read_about, versions_here
from toolchain.tuning.offline.members import FOLDER, Member
from toolchain.tuning.offline.operands import CaseInputs, operand, stored
from toolchain.tuning.offline.plan import StationPlan, read_plan
from toolchain.tuning.offline.results import StationResult, read_results

# Makes the lines of a plan about a candidate, and the files that they name (native/src/offline/plan.h).

_EXACT_IN_FLOAT32 = ("float16", "float32", "int8", "uint8", "int16", "uint16", "bool")


@dataclass(frozen=True)
class CaseBlock:
    """A case of a candidate: its lines of the plan, and the files that they name."""

    lines: tuple[str, ...]
    members: tuple[Member, ...]


def case_block(candidate: Candidate, given: CaseInputs) -> CaseBlock:
    """Return a case in the layouts of a candidate.

    Its expected outputs must be known. Values that the layout leaves open, such as padding, are NaN there.
    """
    arguments, expected = given.case.arguments(), given.case.expected()
    if expected is None:
        raise AssertionError("a case without expected outputs was to be exported")
    lines, members = ["case"], []
    inputs = candidate.parameters[: -candidate.outputs]
    for place, parameter in enumerate(inputs):
        one = operand(place, parameter, given, arguments)
        lines.append(one.line)
        members += [one.member] if one.member else []
    tolerance = tolerance_of(expected)
    for parameter, wanted in zip(candidate.parameters[len(inputs) :], expected, strict=True):
        packed = parameter.filled(None)
        members.append(stored(_in_layout(parameter, packed, wanted)))
        shape = "x".join(map(str, packed.shape)) or "-"
        halves = HALVES if rounds(wanted) else 0
        lines.append(f"output {packed.dtype} {shape} {members[-1].digest} {tolerance:g} {halves:g}")
    return CaseBlock(tuple(lines), tuple(members))


def block(
    word: str, name: str, limit_s: float, library: str, function: str, memory: str, cases: Sequence[CaseBlock]
) -> tuple[str, ...]:
    """Return a candidate's lines of the plan; the first has `{digest}` in the place of its digest."""
    first = f"{word} {{digest}} {name} {limit_s:.3f} {library} {function} {memory}"
    return (first, *(line for each in cases for line in each.lines))


def content_digest(lines: Sequence[str], workload: str, entry: Entry) -> str:
    """Return the digest by which a result is matched to its candidate: of its code, operands and point."""
    point = (workload, entry.kind, entry.payload, entry.digest)
    parts = [part.encode() for part in (*point, *lines)]
    return sha256(b"".join(b"%d:%s" % (len(part), part) for part in parts)).hexdigest()


def _in_layout(parameter: Parameter, packed: Array, wanted: Array) -> Array:
    """Return the expected values where a candidate writes them: `Parameter.logical` only selects elements."""
    places = parameter.logical(np.arange(packed.size).reshape(packed.shape))
    floats = np.float32 if wanted.dtype.name in _EXACT_IN_FLOAT32 else np.float64
    values = np.full(packed.size, np.nan, floats)
    values[places.ravel()] = wanted.astype(floats).ravel()
    return values.reshape(packed.shape)


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
    results: Mapping[str, StationResult]


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

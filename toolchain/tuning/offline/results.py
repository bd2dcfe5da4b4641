"""The results that a station wrote, checked like the answers of any board."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from toolchain.answers import Answer, Kind, Word, problem
from toolchain.errors import CheckError, UsageError
from toolchain.files.plain import open_plain
from toolchain.tuning.offline.about import ExportVersions
from toolchain.tuning.plans.answers import CandidateLine
from toolchain.tuning.plans.plan import StationPlan

FILE = "results"
_MOST = 64 << 20  # bytes, as in edge-rt
_LINE = 64 << 10


class Head(Answer):
    """The first line: whose results follow."""

    results: Literal[1]
    plan: Word
    runtime: Word


def read_results(folder: Path, plan: StationPlan, versions: ExportVersions) -> Mapping[str, CandidateLine]:
    """Return the results of a folder by the digests of their candidates.

    A last line without an end was cut: it is ignored, as edge-rt does that measures the rest.

    Raises
    ------
    UsageError
        There are no results, or they are those of another plan or edge-rt, or of candidates that are not in
        the plan.
    CheckError
        A line is not what edge-rt writes.
    """
    path = folder / FILE
    try:
        with open_plain(path, links=False) as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            f"measure first, on the board: {folder}/edge-rt measure {folder}",
        ) from error
    if len(content) > _MOST:
        raise UsageError(f"{path} is too large: more than {_MOST} bytes", "measure again")
    lines = content.split(b"\n")[:-1]
    if not lines:
        raise UsageError(f"{path} is empty", "measure again")
    head = _parsed(Head, lines[0], path, 1)
    if head.plan != plan.digest:
        raise UsageError(
            f"{path} holds the results of another export than {folder / 'plan'}", "copy the whole folder back"
        )
    if head.runtime != versions.runtime:
        raise UsageError(
            f"{path} was written by edge-rt {head.runtime}, the candidates are for {versions.runtime}",
            "measure with the edge-rt in the folder",
        )
    found: dict[str, CandidateLine] = {}
    for number, line in enumerate(lines[1:], 2):
        result = _parsed(CandidateLine, line, path, number)
        if result.candidate not in plan.blocks:
            raise UsageError(
                f"{path}, line {number}: the result of a candidate that is not in the plan",
                "copy the whole folder back, or measure again",
            )
        if result.candidate in found:
            raise impossible(path, number, "its candidate has a result in an earlier line")
        found[result.candidate] = result
    return found


def impossible(path: Path, number: int, problem: str) -> CheckError:
    """Return the error for a line that cannot be true."""
    return CheckError(
        f"{path}, line {number} cannot be right: {problem}; nothing was imported",
        "measure again; a board that goes on saying so is not to be trusted",
    )


def _parsed(kind: type[Kind], line: bytes, path: Path, number: int) -> Kind:
    if len(line) > _LINE:
        raise impossible(path, number, f"it has {len(line)} bytes")
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        raise impossible(path, number, problem(error)) from error

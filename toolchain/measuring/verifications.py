"""Stores which bundles passed `toolchain verify` on which board classes; `release sign` reads it.

An unreadable entry counts as not verified: `toolchain verify` writes it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from toolchain.answers import Answer, Several, Word
from toolchain.boards.board import Board
from toolchain.bundles.read import Bundle
from toolchain.configuration.settings import data_dir
from toolchain.errors import ToolchainError
from toolchain.files.atomic import write_bytes
from toolchain.files.plain import open_plain
from toolchain.files.turns import one_at_a_time
from toolchain.measuring.bench import LEAST_FOR_CONFIDENCE, BenchResult
from toolchain.measuring.device import simulation
from toolchain.measuring.verify import VerifyResult
from toolchain.records.record import EMULATED

FILE_NAME = "verified.json"
MOST = 1000
"""Verifications that are kept, the newest: one for each bundle and board class."""

_MOST_BYTES = 4 * 2**20
_TURN_S = 30.0


class Verification(Answer):
    """A bundle that computed its expected outputs on a board.

    Attributes
    ----------
    sha256
        Digest of the bundle.
    board_class
        `<class>`, or `<class>+emulated` if the board or the device was not real.
    at
        Seconds since 1970.
    error
        The largest max|y-r| / max|r| of an output.
    device
        The device that computed, as edge-rt names it.
    latency_ms
        Median of the newest `toolchain bench` there; None: not measured.
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    board_class: Word
    at: Annotated[int, Field(ge=0, lt=2**53)]
    error: Annotated[float, Field(ge=0)]
    device: Word
    latency_ms: Annotated[float, Field(gt=0)] | None = None


_FILE = TypeAdapter(Several[Verification])


def class_of(board: Board, device: str) -> str:
    """Return the class that a verification counts for: `+emulated` if board or device was not real."""
    return board.profile.name + EMULATED if device == simulation(device) else board.record_class


def remember_results(bundle: Bundle, board: Board, results: Sequence[VerifyResult]) -> list[VerifyResult]:
    """Store that a bundle passed in all its shapes; after a failure in one, remove what was stored.

    Parameters
    ----------
    results
        Those of its shapes, or of some of them.

    Returns
    -------
    list
        The results, the last with a warning if that could not be kept.
    """
    *others, last = results
    failed = not all(result.passed for result in results)
    if not failed and len(results) < len(bundle.each()):
        return list(results)
    device = last.place["ran_on"]
    board_class = class_of(board, device)
    try:
        if failed:
            forget(bundle.sha256, board_class)
        else:
            outputs = (output for result in results for output in result.comparison.outputs)
            error = max(output.max_rel_error or 0.0 for output in outputs)
            remember(bundle.sha256, board_class, error, device)
    except ToolchainError as problem:
        warning = f"`release sign` will not know of this: {problem.message}"
        return [*others, replace(last, warnings=(*last.warnings, warning))]
    return list(results)


def remember_latency(bundle: Bundle, board: Board, result: BenchResult) -> None:
    """Store the median latency of a bundle that passed on that class; failing to store it is not an error.

    A rollout compares boards with it: it is of many samples.
    """
    if result.runs < LEAST_FOR_CONFIDENCE:
        return
    with suppress(ToolchainError):  # the latency in a release is not worth a measurement
        add_latency(bundle.sha256, class_of(board, result.ran_on), result.p50_ms)


def verifications(sha256: str) -> dict[str, Verification]:
    """Return the verifications of a bundle by board class."""
    return {
        verification.board_class: verification
        for verification in _read(data_dir() / FILE_NAME)
        if verification.sha256 == sha256
    }


def remember(sha256: str, board_class: str, error: float, device: str) -> None:
    """Store that a bundle passed on a class of boards; a stored latency is kept.

    Raises
    ------
    ToolchainError
        The data folder cannot be written, or another process holds its lock.
    """
    file = data_dir() / FILE_NAME
    with _turn(file):
        kept = _read(file)
        latency = next((entry.latency_ms for entry in kept if _same(entry, sha256, board_class)), None)
        _write(
            file,
            [
                *(entry for entry in kept if not _same(entry, sha256, board_class)),
                Verification(
                    sha256=sha256,
                    board_class=board_class,
                    at=int(time.time()),
                    error=error,
                    device=device,
                    latency_ms=latency,
                ),
            ],
        )


def forget(sha256: str, board_class: str) -> None:
    """Remove the verification of a bundle on a class of boards. Errors as of `remember`."""
    if board_class not in verifications(sha256):
        return
    file = data_dir() / FILE_NAME
    with _turn(file):
        _write(file, [entry for entry in _read(file) if not _same(entry, sha256, board_class)])


def add_latency(sha256: str, board_class: str, latency_ms: float) -> None:
    """Add a measured latency to a stored verification; without one, do nothing. Errors as of `remember`."""
    if board_class not in verifications(sha256):
        return
    file = data_dir() / FILE_NAME
    with _turn(file):
        _write(
            file,
            [
                entry.model_copy(update={"latency_ms": latency_ms})
                if _same(entry, sha256, board_class)
                else entry
                for entry in _read(file)
            ],
        )


def _turn(file: Path) -> AbstractContextManager[None]:
    return one_at_a_time(file.with_suffix(".lock"), _TURN_S, f"writing {file}")


def _same(entry: Verification, sha256: str, board_class: str) -> bool:
    return (entry.sha256, entry.board_class) == (sha256, board_class)


def _read(file: Path) -> tuple[Verification, ...]:
    try:
        with open_plain(file) as opened:
            return _FILE.validate_json(opened.read(_MOST_BYTES))
    except (OSError, ValidationError):
        return ()


def _write(file: Path, kept: Iterable[Verification]) -> None:
    write_bytes(file, _FILE.dump_json(tuple(kept)[-MOST:]), mode=0o600)

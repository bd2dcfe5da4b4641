"""Measures how fast a board's cores multiply and read memory, by `edge-rt probe` on it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from pydantic import Field, ValidationError

from toolchain.answers import Answer, Several, Word, lie, problem, understood
from toolchain.architectures.rates import BoardRates, Level, Name, Speed
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import check_output
from toolchain.boards.edge_rt.install import install
from toolchain.boards.transport import Completed, DeadlineError
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import last_line
from toolchain.measuring.answers import Failed

_PATIENCE_S = 60.0  # edge-rt's own limit; the measurement takes three seconds
_WAIT_S = 60.0  # for another measurement on the board
_MARGIN_S = 30.0
_WHAT = "the answer of `edge-rt probe`"
BUSY_SHARE = 0.9
"""Share of the time below which the measuring threads did not have their CPUs to themselves."""


class _Product(Answer):
    name: Name
    gops: Speed


class _Read(Answer):
    name: Level
    gb_s: Speed


class _Together(Answer):
    threads: int = Field(ge=1, le=4096)
    cpu_share: float = Field(ge=0, le=2)
    products: Several[_Product] = Field(min_length=1, max_length=32)
    reads: Several[_Read] = Field(min_length=1, max_length=4)


class _Cluster(Answer):
    core: Word = Field(max_length=64)
    l2_kib: int | None = Field(ge=1, le=2**30)
    one: _Together
    all: _Together


class _Probed(Answer):
    version: Word = Field(max_length=64)
    fingerprint: Word = Field(max_length=64)
    family: Word | None = Field(None, max_length=32)
    clusters: Several[_Cluster] = Field(min_length=1, max_length=64)


def measure_rates(board: Board, progress: Callable[[str], None] | None = None) -> BoardRates:
    """Measure the speeds of a board's cores, which takes three seconds.

    Parameters
    ----------
    progress
        Called with a message when `edge-rt` has to be compiled, which takes minutes the first time.

    Raises
    ------
    UsageError
        The board is emulated: its times are those of an emulator.
    CheckError
        The answer cannot be true.
    ToolchainError
        The board is busy or cannot be reached, or the measurement failed.
    """
    if board.emulated:
        raise UsageError(
            f"board {board.name} is emulated: what is measured there are the speeds of an emulator",
            "measure a real board; code for an emulated one is made with its class's rates",
        )
    installed = install(board, progress)
    command = installed.command("probe", "--wait", f"{_WAIT_S:g}", "--timeout", f"{_PATIENCE_S:g}")
    try:
        completed = board.transport.run(command, timeout=_PATIENCE_S + _WAIT_S + _MARGIN_S)
    except DeadlineError as error:
        raise ToolchainError(
            f"board {board.name}: `edge-rt probe` did not end and was killed",
            f"see what is running there: `toolchain board status {board.name}`",
        ) from error
    if completed.returncode != 0:
        raise ToolchainError(
            f"board {board.name}: its cores could not be measured: {_reason(completed)}",
            f"see what is running there: `toolchain board status {board.name}`",
        )
    answer = understood(_Probed, check_output(completed, board.name, _WHAT), board.name, _WHAT)
    try:
        return _rates(answer)
    except ValidationError as error:
        raise lie(board.name, _WHAT, problem(error)) from error


def _reason(completed: Completed) -> str:
    try:
        return Failed.model_validate_json(completed.stdout).error.message
    except ValidationError:
        return last_line(completed.stderr) or completed.signal_name or f"exit code {completed.returncode}"


def _rates(answer: _Probed) -> BoardRates:
    shares = [cores.cpu_share for cluster in answer.clusters for cores in (cluster.one, cluster.all)]
    return BoardRates.model_validate(
        {
            "measured": datetime.now(UTC).date().isoformat(),
            "edge_rt": f"{answer.version} {answer.fingerprint[:12]}",
            "cpu_share": _rounded(min(1.0, sum(shares) / len(shares))),
            "clusters": [
                {
                    "core": cluster.core,
                    "family": answer.family,
                    "l2_kib": cluster.l2_kib,
                    "one": _speeds(cluster.one),
                    "all": _speeds(cluster.all),
                }
                for cluster in answer.clusters
            ],
        }
    )


def _speeds(cores: _Together) -> dict[str, object]:
    return {
        "threads": cores.threads,
        "gops": {product.name: _rounded(product.gops) for product in cores.products},
        "gb_s": {level.name: _rounded(level.gb_s) for level in cores.reads},
    }


def _rounded(number: float) -> float:
    """Return a number with three digits: a second measurement differs by more."""
    return float(f"{number:.3g}")

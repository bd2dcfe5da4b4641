"""Verifies, times and runs a bundle on a board.

The public functions take the choices of an execution as keywords, and make the objects of them that the
command line makes of its options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack, cast

import numpy as np

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.measuring.bench import BenchResult, bench_bundle
from toolchain.measuring.execution import AS_BUILT, Execution, OnBoard, Sampling
from toolchain.measuring.run import run_bundle
from toolchain.measuring.shapes import shapes_at
from toolchain.measuring.verifications import remember_latency, remember_results
from toolchain.measuring.verify import VerifyResult, verify_bundle


class _HowKeywords(TypedDict, total=False):
    """The attributes of `Execution`."""

    device: str | None
    threads: int | None
    cluster: str | None
    spin_us: int | None
    graph: bool


class ExecutionKeywords(_HowKeywords, total=False):
    """Keywords of `verify`, `bench`, `run`: attributes of `Execution`, and of `OnBoard` except the board."""

    timeout: float | None
    wait: float | None
    progress: Callable[[str], None] | None


def verify(
    bundle: Bundle | str | Path,
    board: str | Board = "local",
    *,
    at: Sequence[str] = (),
    **execution: Unpack[ExecutionKeywords],
) -> list[VerifyResult]:
    """Run a bundle's samples on a board and compare the outputs with the reference that is in the bundle.

    A passed comparison of all shapes is remembered, and forgotten when one fails on the same class of boards:
    `toolchain release sign` asks for it.

    Parameters
    ----------
    bundle, board
        The bundle, or its file; the board that runs it.
    at
        Of a bundle of several shapes, only those with an input of each of these shapes, such as
        `x=1,3,48,320`. Default: all.
    execution
        `device`: the device of the bundle's kind that computes, such as `cuda:1`; default: the one that the
        bundle was built for. `threads`: default: the cores of the cluster. `cluster`: CPU of one of the
        board's clusters; default: the bundle's. `spin_us`: microseconds that an idle thread spins before it
        sleeps; default: 50. `graph`: whether a GPU's driver gets the kernels as one graph; default: True.
        `timeout`: seconds until the call fails; default: from the network's FLOPs and the board. `wait`:
        seconds to wait for a busy board; default: none. `progress`: called with a message while edge-rt is
        compiled for the board, which takes minutes the first time.

    Returns
    -------
    list
        A comparison for each shape, the smallest first. Wrong outputs are a result, which has `check`.

    Raises
    ------
    UsageError
        The file is no bundle, there is no such board, or the bundle is for another kind of board.
    ToolchainError
        The board is busy, lost or too slow, or the library crashes.
    """
    opened = _bundle(bundle)
    on_board, how = _objects(board, execution)
    return verify_shapes(opened, at, on_board, how)


def bench(
    bundle: Bundle | str | Path,
    board: str | Board = "local",
    *,
    at: Sequence[str] = (),
    number: int = 1,
    repeat: int | None = None,
    min_repeat_ms: int = 0,
    time_s: float | None = None,
    profile: bool = False,
    **execution: Unpack[ExecutionKeywords],
) -> list[BenchResult]:
    """Measure the latency of a bundle's network on a board.

    That of all shapes, as the bundle runs without options, is remembered for `toolchain release sign`.

    Parameters
    ----------
    bundle, board
        The bundle, or its file; the board that is measured.
    at
        As in `verify`.
    number, min_repeat_ms
        A sample is the mean of at least `number` inferences that take at least `min_repeat_ms` in total.
    repeat, time_s
        Sampling of a shape ends after `repeat` samples or `time_s` seconds, warm-up included; after 10 s if
        neither is given.
    profile
        Whether to time each operator, too.
    execution
        As in `verify`.

    Returns
    -------
    list
        The latency in each shape, the smallest first.

    Raises
    ------
    UsageError, ToolchainError
        As `verify`.
    """
    opened = _bundle(bundle)
    sampling = Sampling(number, repeat, min_repeat_ms, time_s, profile)
    on_board, how = _objects(board, execution)
    return bench_shapes(opened, at, on_board, sampling, how)


def run(
    bundle: Bundle | str | Path,
    inputs: Mapping[str, np.ndarray],
    board: str | Board = "local",
    *,
    pad: bool = False,
    **execution: Unpack[ExecutionKeywords],
) -> dict[str, np.ndarray]:
    """Run one inference on a board with the caller's data.

    Parameters
    ----------
    bundle, board
        The bundle, or its file; the board that runs it.
    inputs
        All inputs by name, in one of the bundle's shapes and with its dtypes.
    pad
        Whether inputs are filled up with zeros to the bundle's next shape, if it was built for that.
    execution
        As in `verify`.

    Returns
    -------
    dict
        The outputs by name, in the network's order.

    Raises
    ------
    UsageError
        An input is missing, unknown, or of a wrong shape or dtype; or as `verify`.
    ToolchainError
        As `verify`.
    """
    opened = _bundle(bundle)
    on_board, how = _objects(board, execution)
    return run_bundle(opened, on_board, inputs, how, pad=pad)


def verify_shapes(
    bundle: Bundle, at: Sequence[str], on_board: OnBoard, execution: Execution = AS_BUILT
) -> list[VerifyResult]:
    """Compare the outputs of a bundle in some of its shapes, as `verify` does."""
    results = [verify_bundle(shape, on_board, execution) for shape in shapes_at(bundle, at)]
    return remember_results(bundle, on_board.board, results)


def bench_shapes(
    bundle: Bundle,
    at: Sequence[str],
    on_board: OnBoard,
    sampling: Sampling,
    execution: Execution = AS_BUILT,
) -> list[BenchResult]:
    """Measure the latency of a bundle in some of its shapes, as `bench` does."""
    shapes = shapes_at(bundle, at)
    results = [bench_bundle(shape, on_board, sampling, execution) for shape in shapes]
    if execution == AS_BUILT and len(shapes) == len(bundle.each()):
        remember_latency(bundle, on_board.board, results[-1])  # of several shapes, that of the largest
    return results


def _bundle(bundle: Bundle | str | Path) -> Bundle:
    return bundle if isinstance(bundle, Bundle) else read_bundle(Path(bundle))


def _objects(board: str | Board, keywords: ExecutionKeywords) -> tuple[OnBoard, Execution]:
    """Return the keywords as objects; an unknown keyword is a TypeError of `Execution`."""
    on_board = OnBoard(
        find_board(board) if isinstance(board, str) else board,
        timeout=keywords.pop("timeout", None),
        wait=keywords.pop("wait", None),
        progress=keywords.pop("progress", None),
    )
    return on_board, Execution(**cast(_HowKeywords, keywords))

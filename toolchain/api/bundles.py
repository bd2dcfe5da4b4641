"""Verifies, times and runs a bundle on a board."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.measuring.bench import BenchResult, bench_bundle
from toolchain.measuring.run import run_bundle
from toolchain.measuring.shapes import shapes_at
from toolchain.measuring.verifications import remember_latency, remember_results
from toolchain.measuring.verify import VerifyResult, verify_bundle


class Execution(TypedDict, total=False):
    """How a bundle is executed.

    Attributes
    ----------
    device
        Which device of the bundle's kind computes, such as `cuda:1`; default: the one it was built for.
    threads
        Default: the cores of the cluster.
    cluster
        CPU of one of the board's clusters; default: the bundle's.
    spin_us
        Microseconds that an idle thread spins before it sleeps; default 50.
    timeout
        Seconds until the call fails; default: from the network's FLOPs and the board.
    wait
        Seconds to wait for a busy board; default: none.
    graph
        Whether a GPU's driver gets the kernels as one graph; default True.
    progress
        Called with a message while edge-rt is compiled for the board, which takes minutes the first time;
        default: nothing is told.
    """

    device: str | None
    threads: int | None
    cluster: str | None
    spin_us: int | None
    timeout: float | None
    wait: float | None
    graph: bool
    progress: Callable[[str], None] | None


def verify(
    bundle: Bundle | str | Path,
    board: str | Board = "local",
    *,
    at: Sequence[str] = (),
    **execution: Unpack[Execution],
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
        Device, threads, cluster, timeout and waiting; as in `Execution`.

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
    found, place = _found(bundle), _board(board)
    results = [verify_bundle(shape, place, **execution) for shape in shapes_at(found, at)]
    return remember_results(found, place, results)


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
    **execution: Unpack[Execution],
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
        As in `Execution`.

    Returns
    -------
    list
        The latency in each shape, the smallest first.

    Raises
    ------
    UsageError, ToolchainError
        As `verify`.
    """
    found, place = _found(bundle), _board(board)
    shapes = shapes_at(found, at)
    results = [
        bench_bundle(
            shape,
            place,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            time_s=time_s,
            profile=profile,
            **execution,
        )
        for shape in shapes
    ]
    usual = not any(execution.get(name) is not None for name in ("device", "threads", "cluster", "spin_us"))
    if usual and execution.get("graph", True) and len(shapes) == len(found.each()):
        remember_latency(found, place, results[-1])  # of several shapes, that of the largest
    return results


def run(
    bundle: Bundle | str | Path,
    inputs: Mapping[str, np.ndarray],
    board: str | Board = "local",
    *,
    pad: bool = False,
    **execution: Unpack[Execution],
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
        As in `Execution`.

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
    return run_bundle(_found(bundle), _board(board), inputs, **execution, pad=pad)


def _found(bundle: Bundle | str | Path) -> Bundle:
    return bundle if isinstance(bundle, Bundle) else read_bundle(Path(bundle))


def _board(board: str | Board) -> Board:
    return find_board(board) if isinstance(board, str) else board

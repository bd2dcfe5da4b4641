"""Runs one inference on a board with the user's data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from toolchain.boards.board import Board
from toolchain.bundles.read import Bundle
from toolchain.measuring.deadlines import deadline
from toolchain.measuring.execute import fetched_outputs
from toolchain.measuring.place import place
from toolchain.measuring.shapes import shape_for


def run_bundle(
    bundle: Bundle,
    board: Board,
    inputs: Mapping[str, np.ndarray],
    threads: int | None = None,
    cluster: str | None = None,
    timeout: float | None = None,
    wait: float | None = None,
    spin_us: int | None = None,
    device: str | None = None,
    graph: bool = True,
    progress: Callable[[str], None] | None = None,
    *,
    pad: bool = False,
) -> dict[str, np.ndarray]:
    """Run one inference on the board and return the outputs by name, in the network's order.

    Parameters
    ----------
    bundle, board
        The bundle to run, and the board that runs it.
    inputs
        All inputs by name, in one of the bundle's shapes and with its dtypes.
    threads, cluster, spin_us, device, graph, progress
        As in `measuring.place.place`.
    timeout
        Timeout in seconds; default: computed from the network's FLOPs and the board.
    wait
        Seconds to wait for a board that is busy.
    pad
        Whether inputs that have none of the bundle's shapes are padded with zeros to the smallest one that
        they fit into. The outputs then have that shape's extents.

    Raises
    ------
    UsageError
        The inputs are wrong, or the bundle is for another board.
    ToolchainError
        The board is busy, lost or too slow, or the library crashes.
    """
    bundle = shape_for(bundle, inputs, pad=pad)
    placed = place(bundle, board, threads, cluster, spin_us, device, graph, progress)
    limit = deadline(
        bundle.manifest.model.flops,
        board.profile,
        emulated=board.emulated,
        device=bundle.manifest.device,
        extra_s=wait or 0.0,
        timeout=timeout,
    )
    return fetched_outputs(placed, inputs, limit, wait, ["--pad"] if pad else [])

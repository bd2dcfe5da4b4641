"""Runs one inference on a board with the user's data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from toolchain.bundles.read import Bundle
from toolchain.measuring.deadlines import deadline_on
from toolchain.measuring.execute import fetched_outputs
from toolchain.measuring.execution import AS_BUILT, Execution, OnBoard
from toolchain.measuring.place import place
from toolchain.measuring.shapes import shape_for


def run_bundle(
    bundle: Bundle,
    on_board: OnBoard,
    inputs: Mapping[str, np.ndarray],
    execution: Execution = AS_BUILT,
    *,
    pad: bool = False,
) -> dict[str, np.ndarray]:
    """Run one inference on the board and return the outputs by name, in the network's order.

    Parameters
    ----------
    inputs
        All inputs by name, in one of the bundle's shapes and with its dtypes.
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
    placed = place(bundle, on_board, execution)
    limit = deadline_on(on_board, bundle.manifest)
    return fetched_outputs(placed, inputs, limit, ["--pad"] if pad else [])

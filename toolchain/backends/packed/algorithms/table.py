"""The table of algorithms. A new algorithm is a folder of its own and a line here."""

from __future__ import annotations

import json
from typing import Any

from toolchain.backends.packed.algorithms.algorithm import Algorithm, Choice
from toolchain.backends.packed.algorithms.columnwise.algorithm import Columnwise
from toolchain.backends.packed.algorithms.dense.algorithm import Dense
from toolchain.backends.packed.algorithms.depthwise.algorithm import Depthwise
from toolchain.backends.packed.algorithms.direct.algorithm import Direct
from toolchain.backends.packed.algorithms.gemm.algorithm import SharedGemm
from toolchain.backends.packed.algorithms.general import General
from toolchain.backends.packed.algorithms.implicit_gemm.algorithm import ImplicitGemm
from toolchain.backends.packed.algorithms.interleaved.algorithm import Interleaved
from toolchain.backends.packed.algorithms.winograd.algorithm import Winograd
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line

ALGORITHMS: tuple[Algorithm[Any, Any], ...] = (
    Direct(),
    Depthwise(),
    Interleaved(),
    Dense(),
    Winograd(),
    Columnwise(),
    ImplicitGemm(),
    SharedGemm(),
    General(),
)
"""The first algorithm that applies is the default, unless the estimate of a later one is better."""

_BY_NAME = {algorithm.name: algorithm for algorithm in ALGORITHMS}


def algorithm_of(choice: Choice) -> Algorithm[Any, Any]:
    """Return the algorithm of a code variant."""
    return _BY_NAME[choice.algorithm]


def choice_from(payload: str) -> Choice:
    """Return the code variant (an algorithm with its parameters) that a record stores.

    Parameters
    ----------
    payload
        The record's JSON object of the algorithm's name and of the parameters (knobs).

    Raises
    ------
    ToolchainError
        The payload is no such object, or another version wrote it and this one does not know its algorithm
        or a parameter.
    """
    try:
        knobs = dict(json.loads(payload))
        name = knobs.pop("algorithm", None)
        if name not in _BY_NAME:
            raise ValueError(f"unknown algorithm: {name}")
        choice: Choice = _BY_NAME[name].choice.from_knobs(knobs)
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolchainError(
            "a record was made by another version and names a code variant unknown to this one: "
            f"{first_line(error)}",
            "tune the task again with --fresh",
        ) from error
    return choice

"""Whether a candidate computes its task: what came of a case beside what must come of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolchain.tasks.parameter import Array

# Those of a whole network (building/manifest.py), relative to the largest value: winograd and other orders of
# sums are off by 1e-4 of it at most, and what forgets a row, a lane or a bias by much more. With float16
# sums may be rounded to it on the way.
_TOLERANCE, _TOLERANCE_HALF = 1e-3, 2e-2


_ROUNDED = ("float32", "float16", "int8", "uint8")  # and no indices

_HALVES = 1e-2
"""Share of integers that may be a step off: sums of random numbers meet a half sometimes."""


def wrong(outputs: Sequence[Array], expected: Sequence[Array]) -> str:
    """Return what is wrong with the outputs; empty: nothing.

    Where the expected value is not finite nothing is asked of an output: random numbers may leave a domain.
    """
    half = any(each.dtype == np.float16 for each in expected)
    tolerance = _TOLERANCE_HALF if half else _TOLERANCE
    for output, wanted in zip(outputs, expected, strict=True):
        exact = wanted.astype(np.float64)
        finite = np.isfinite(exact)
        difference = np.abs(output.astype(np.float64) - exact)[finite]
        scale = np.abs(exact[finite]).max(initial=0.0)
        error = difference.max(initial=0.0)
        if (
            error <= 1
            and wanted.dtype.name in _ROUNDED
            and _steps(exact[finite])
            and np.mean(difference > tolerance * scale) <= _HALVES
        ):
            continue
        if not error <= tolerance * scale:  # NaN is never less
            return f"differs from the definition by {error:.3g} where values reach {scale:.3g}"
    return ""


def _steps(values: np.ndarray) -> bool:
    """Whether values are integers, of a function that rounds to them, and not all the same."""
    return bool(values.size and np.ptp(values) > 1 and np.array_equal(values, np.rint(values)))

"""Refuses what has no scale: networks without layers to quantise, and numbers that are NaN or infinite."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.samples import UnusableSampleError
from toolchain.quantities import counted

_SHOWN = 3
"""Number of layers that an error names."""


def nothing_to_quantise(left: Mapping[str, str], otherwise: str, origin: str) -> UsageError:
    """Return the error that no layer becomes one of integers.

    Parameters
    ----------
    left
        Name of a layer -> why it is not quantised.
    otherwise
        The reason if there is no such layer.
    """
    reasons = "; ".join(f"{name}: {reason}" for name, reason in list(left.items())[:_SHOWN])
    return UsageError(
        f"{origin}: --dtype int8: nothing of it can be quantised ({reasons or otherwise})",
        "build it with --dtype float32",
    )


def check_stored(what: str, values: Array, origin: str) -> None:
    """Check that the weights which `what` names are numbers.

    Raises
    ------
    UsageError
        One is NaN or infinite.
    """
    if wrong := np.count_nonzero(~np.isfinite(values)):
        raise UsageError(
            f"{origin}: --dtype int8: its {what} holds NaN or infinity in {wrong} of "
            f"{counted(values.size, 'place')}, for which there is no scale",
            "export the network again, from weights that are numbers",
        )


def check_computed(name: str, values: Array, number: int, origin: str) -> None:
    """Check that a tensor's values for a sample are numbers.

    Raises
    ------
    UnusableSampleError
        One is NaN or infinite.
    """
    if not np.isfinite(values).all():
        reason = f"tensor {printable(name)!r} is NaN or infinite for sample {number}"
        raise UnusableSampleError(
            f"{origin}: --dtype int8: {reason}, so that it can have no scale",
            "calibrate with inputs that the network is made for (--calibrate NAME=FILE.npy), or "
            "build it with --dtype float32",
            reason,
        )

"""Inputs to try a network with."""

from __future__ import annotations

import hashlib

import numpy as np

from toolchain.models.spec import TensorSpec

INTEGERS_BELOW = 4
"""Seeded integer inputs are 0 … 3: small enough to index almost any table."""


def sample(spec: TensorSpec, seed: int) -> np.ndarray:
    """Return an array for an input, the same for the same seed, name, shape and dtype.

    Floats are standard normal, integers small and not negative, booleans even.
    """
    digest = hashlib.sha256(f"{seed}/{spec.name}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    if np.issubdtype(np.dtype(spec.dtype), np.floating):
        return generator.standard_normal(spec.shape, dtype=np.float32).astype(spec.dtype)
    high = 2 if spec.dtype == "bool" else INTEGERS_BELOW
    return generator.integers(0, high, spec.shape).astype(spec.dtype)

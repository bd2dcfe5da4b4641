"""The table of operators."""

from __future__ import annotations

from toolchain.models.tflite.call import Rule
from toolchain.models.tflite.operators import (
    convolutions,
    indices,
    moving,
    pointwise,
    pools,
    products,
    reductions,
    resampling,
    types,
)

RULES: dict[str, Rule] = {
    **convolutions.RULES,
    **indices.RULES,
    **moving.RULES,
    **pointwise.RULES,
    **pools.RULES,
    **products.RULES,
    **reductions.RULES,
    **resampling.RULES,
    **types.RULES,
}
"""By the schema's names."""

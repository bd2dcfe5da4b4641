"""Limits of VTA's ALU, which quantised networks are made to fit; other layers are refused."""

from __future__ import annotations

LEAST_RIGHT, MOST_RIGHT = 1, 15
"""Range of right shifts of sums: at least one bit, for rounding; at most the ALU's largest shift per lane."""

MOST_DIAGONAL = 6
"""Largest exponent of a power of two by which a residual is multiplied in int8: 2**7 does not fit."""

MOST_COMMON = 15
"""Largest common left shift of a residual: the limit of the ALU's immediate."""

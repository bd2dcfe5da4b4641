"""What a VTA has room for: networks in 8 bits are quantised to fit it, and layers that do not are refused."""

from __future__ import annotations

LEAST_RIGHT, MOST_RIGHT = 1, 15
"""Right shifts of sums: one bit at least, whose half rounds; at most what the ALU shifts by, lane by lane."""

MOST_DIAGONAL = 6
"""Exponent of the largest power of two that a residual is multiplied with in int8: 2**7 is beyond it."""

MOST_COMMON = 15
"""Left shift that all channels of a residual share: what the ALU's immediate has room for."""

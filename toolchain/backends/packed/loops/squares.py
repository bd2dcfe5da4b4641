"""Transposes squares of numbers in registers: as many vectors as a vector has lanes."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import DataType, tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.read import Expr

_PART = 128  # bits of a register within which a core moves numbers by the cheapest instructions


def transposed(nest: Nest, vectors: tirx.Buffer, lanes: int) -> tirx.Buffer:
    """Emit the transpose of a square; return the buffer of the result.

    First each part of 128 bits becomes a column's, then whole parts change places: an AVX2 core needs one
    instruction for each of these shuffles, and two for one that interleaves whole registers.

    Parameters
    ----------
    vectors
        The square's `lanes` vectors, one after the other.
    """
    near = min(lanes, _PART // DataType(str(vectors.dtype)).bits)
    many = lanes // near
    groups = [[group * near + row for row in range(near)] for group in range(many)]
    vectors = _interleaved(nest, vectors, lanes, groups, unit=1)
    across = [[group * near + row for group in range(many)] for row in range(near)]
    return _interleaved(nest, vectors, lanes, across, unit=near)


def _interleaved(
    nest: Nest, vectors: tirx.Buffer, lanes: int, groups: Sequence[Sequence[int]], *, unit: int
) -> tirx.Buffer:
    """Emit the transpose of groups of vectors, of which `unit` neighbours are moved together.

    Each round interleaves the two halves of a group.
    """
    count = len(groups[0])
    half, width = count // 2, count * unit
    for _round in range(count.bit_length() - 1):
        following = nest.local((lanes * lanes,), str(vectors.dtype))
        for rows in groups:
            for i in range(half):
                pair = [tirx.BufferLoad(vectors, [vector(rows[at], lanes)]) for at in (i, i + half)]
                for part in range(2):
                    order = [
                        start + (part * half + k // 2) * unit + k % 2 * lanes + number
                        for start in range(0, lanes, width)
                        for k in range(count)
                        for number in range(unit)
                    ]
                    place = vector(rows[2 * i + part], lanes)
                    ir.buffer_store(following, tirx.Shuffle(pair, order), [place])
        vectors = following
    return vectors


def vector(place: int, lanes: int) -> Expr:
    """Return the index of a square's vector."""
    return tirx.Ramp(place * lanes, 1, lanes)

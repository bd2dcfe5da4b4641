"""Taps of transposed convolutions that meet zeros alone are skipped, where there are many."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm.sym import Analyzer

from tests.backends.packed.contractions import Turned
from toolchain.backends.packed.algorithms.interleaved.choice import phases_of
from toolchain.backends.packed.algorithms.interleaved.loops import inside
from toolchain.backends.packed.recognise.contraction import recognise
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.read import read
from toolchain.backends.packed.recognise.transposed import Transposed


def asked(turned: Turned, columns: int) -> bool:
    """Return whether a tile of a phase is asked which taps it needs."""
    conv = recognise(read(turned.function()))
    assert isinstance(conv, Transposed)
    analyzer = Analyzer()
    place = [bind(analyzer, tirx.Var("place", "int32"), conv.places(axis, each))
             for axis, each in enumerate(phases_of(conv)[0])]  # fmt: skip
    taps = [bind(analyzer, tirx.Var("tap", "int32"), each.taps) for each in phases_of(conv)[0]]
    return inside(conv, phases_of(conv)[0], place, columns, taps, analyzer) is not None


@pytest.mark.parametrize(
    ("turned", "columns", "expected"),
    [
        (Turned((1, 1), 16, 16, 4), 4, True),  # a picture from one place
        (Turned((4, 4), 16, 16, 4, stride=2, crop=1), 4, True),
        (Turned((16, 16), 16, 16, 4, stride=2, crop=1), 8, False),
        (Turned((6, 6), 16, 16, 2, stride=2), 6, False),  # none meets zeros
    ],
)
def test_whether_it_pays_to_ask(turned: Turned, columns: int, expected: bool) -> None:
    assert asked(turned, columns) is expected

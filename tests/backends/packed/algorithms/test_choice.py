"""What a record holds of a choice."""

from __future__ import annotations

import pytest

from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.dense.loops import DenseChoice
from toolchain.backends.packed.algorithms.depthwise.algorithm import DepthwiseChoice
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.gemm.algorithm import GemmChoice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.algorithms.interleaved.choice import InterleavedChoice
from toolchain.backends.packed.algorithms.table import ALGORITHMS, choice_from
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.errors import ToolchainError

# As records have them since there are any.
KEPT = {
    '{"algorithm":"direct","blocks":2,"columns":14,"depth":4,"flat":false,"order":"channels","rows":7,"tile":[]}':
        DirectChoice(2, 14, 7, "channels", depth=4),
    '{"algorithm":"direct","blocks":2,"columns":10,"depth":0,"flat":true,"order":"rows","rows":1,"tile":[]}':
        DirectChoice(2, 10, flat=True),
    '{"algorithm":"depthwise","blocks":1,"columns":8,"depth":0,"flat":false,"order":"rows","rows":14,"tile":[]}':
        DepthwiseChoice(8, 14),
    '{"algorithm":"winograd","blocks":2,"columns":13,"depth":0,"flat":false,"order":"rows","rows":4,"tile":[4,4]}':
        WinogradChoice(2, 13, tile_rows=4, tile=(4, 4)),
    '{"algorithm":"dense","blocks":3,"columns":9,"depth":0,"flat":false,"order":"channels","rows":22,"tile":[]}':
        DenseChoice(vectors=3, rows=9, tiles=22, order="channels"),
    '{"algorithm":"interleaved","blocks":2,"columns":8,"depth":0,"flat":false,"order":"rows","rows":1,"tile":[]}':
        InterleavedChoice(2, 8),
    '{"algorithm":"columnwise","blocks":1,"columns":8,"depth":0,"flat":false,"order":"rows","rows":4,"tile":[]}':
        ColumnwiseChoice(1, 8, 4),
    '{"algorithm":"implicit-gemm","blocks":1,"columns":7,"depth":8,"flat":false,"order":"rows","rows":1,'
    '"slices":4,"splits":16,"stages":3,"tile":[8,7]}':
        ImplicitGemmChoice(1, 7, (8, 7), slices=4, splits=16, depth=8, stages=3),
    '{"algorithm":"gemm","blocks":1,"columns":1,"depth":64,"flat":false,"order":"rows","rows":1,'
    '"slices":64,"splits":1,"stages":2,"tile":[2,1]}':
        GemmChoice(1, 1, (2, 1), slices=64, depth=64),
    '{"algorithm":"general","blocks":1,"columns":1,"depth":0,"flat":false,"order":"rows","rows":1,"tile":[]}':
        GENERAL,
}  # fmt: skip


@pytest.mark.parametrize(("payload", "choice"), KEPT.items(), ids=lambda value: type(value).__name__)
def test_payloads_are_read_and_written_as_they_always_were(payload: str, choice: Choice) -> None:
    assert choice_from(payload) == choice
    assert choice.to_json() == payload


def test_every_algorithm_has_such_a_payload() -> None:
    assert {choice.algorithm for choice in KEPT.values()} == {algorithm.name for algorithm in ALGORITHMS}


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "{",
        "[]",
        "[" * 5000,
        "7",
        "{}",
        '{"algorithm":"quantum"}',
        '{"algorithm":["direct"]}',
        '{"algorithm":"direct","columns":"eight"}',
        '{"algorithm":"direct","columns":1.5}',
        '{"algorithm":"direct","order":"sideways"}',
        '{"algorithm":"direct","unknown":1}',
        '{"algorithm":"direct","tile":[2,2]}',  # winograd's knob
        '{"algorithm":"depthwise","blocks":2}',
        '{"algorithm":"winograd","tile_rows":2}',  # a field's name is no key
    ],
)
def test_what_is_no_choice_is_refused_with_what_to_type(payload: str) -> None:
    with pytest.raises(ToolchainError, match="unknown to this one") as raised:
        choice_from(payload)
    assert "--fresh" in str(raised.value.hint)


def test_a_missing_knob_has_its_default() -> None:
    assert choice_from('{"algorithm":"direct","columns":4}') == DirectChoice(1, 4)

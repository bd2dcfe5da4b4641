"""Every generator's kernels in Oclgrind: right results, no access beyond a buffer, no data race."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

from tests.backends.packed.computed import loaded
from tests.backends.packed.networks import CASES
from tests.backends.packed.single import Layer
from tests.opencl.networks import error_of, layer, side_by_side
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.algorithms.winograd import algorithm as winograd
from toolchain.backends.packed.algorithms.winograd.algorithm import Winograd
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network import choices
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.boards.board import Board

pytestmark = pytest.mark.slow

LAYERS = (
    Layer(16, 24, (7, 7)),
    Layer(12, 20, (5, 6), kernel=1, pad=0),
    Layer(3, 8, (18, 16), kernel=2, stride=2, pad=0),
    Layer(3, 8, (30, 30), kernel=7, stride=2, pad=3),
    Layer(16, 16, (9, 13), stride=2, groups=2),  # a row has a rest
    Layer(8, 12, (15, 15), kernel=5, pad=2),
    Layer(12, 12, (9, 10), groups=3),
    Layer(8, 8, (9, 11), pad=4, dilation=4),
    Layer(12, 12, (15, 15), groups=12),
    Layer(8, 8, (4, 4), groups=8, kernel=5, pad=2),
    Layer(8, 10, (9, 7), batch=2),  # lanes without a channel
)
WINOGRADS = (Layer(16, 16, (13, 13)), Layer(8, 10, (9, 7), batch=2), Layer(8, 8, (9, 11), (1, 7), pad=(0, 3)))
# Of all operators, those whose loops are of every kind: pools, reductions, rows, moves, conditions.
OPERATORS = (
    "MaxPool 3x3 s2",
    "MaxPool of volumes",
    "AveragePool pads left out",
    "GlobalAveragePool ",
    "ReduceMean [1]",
    "ReduceMax [1, 2, 3]",
    "argmax channels",
    "softmax channels",
    "softmax of 1000",
    "layer norm of rows",
    "masks",
    "concat whole blocks",
    "cumulative sum",
    "slice channels",
    "split",
)


def close(models: Sequence[onnx.ModelProto], board: Board, folder: Path) -> bool:
    return error_of(loaded(side_by_side(models)), board, folder) < 3e-6


def test_convolutions(board: Board, tmp_path: Path) -> None:
    assert close([layer(each) for each in LAYERS], board, tmp_path)


def test_winograd(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def wanted(contraction: Contraction, machine: Machine, use_winograd: bool) -> Choice:
        fast = Winograd()
        choice = winograd.default(contraction, machine) if fast.applies(contraction, machine) else None
        taken.append(choice)
        return choice or default_choice(contraction, machine, use_winograd)

    monkeypatch.setattr(choices, "default_choice", wanted)
    assert close([layer(each) for each in WINOGRADS], board, tmp_path)
    assert {each.tile for each in taken if each is not None} > {(1, 2)}


def test_an_update_of_a_cache(board: Board, tmp_path: Path) -> None:
    """Both values of a selection may be read, wherever its condition is false."""
    (cache,) = [case for case in CASES if case.name == "update of a cache"]
    assert close([cache.model(packed=False)], board, tmp_path)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
def test_operators(board: Board, tmp_path: Path, packed: bool) -> None:
    named = {case.name: case for case in CASES}
    assert close([named[name].model(packed=packed) for name in OPERATORS], board, tmp_path)

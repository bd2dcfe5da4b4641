"""What is drawn in the place of a network's weights, and what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from toolchain.arrays import Array
from toolchain.tasks.candidate import Candidate, Entry, Parameter, write_case
from toolchain.tuning.boards.draws import Draw
from toolchain.tuning.offline.operands import CaseInputs, operand, redrawn, weight_draws, weights_beside

SHAPE = (8, 6)


@dataclass(frozen=True)
class Product:
    """A task whose second parameter is a constant weight, and whose third is another constant."""

    parameters: tuple[Parameter, ...]

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        return [[x @ weight + bias] for x, weight, bias in draws]


def product(weight: Array) -> tuple[Candidate, Product]:
    plain = (
        Parameter((2, 8), "float32"),
        Parameter(SHAPE, str(weight.dtype), value=weight),
        Parameter((6,), "float32", value=np.ones(6, np.float32)),
    )
    packed = Parameter((6, 8), str(weight.dtype), value=weight.T, pack=lambda value: value.T)
    return Candidate(
        Entry("c", "", ""), None, (plain[0], packed, plain[2], Parameter((2, 6), "float32")), 1
    ), Product(plain)


def inputs(tmp_path: Path, draws: Mapping[int, Draw], weights: Mapping[int, Array]) -> CaseInputs:
    return CaseInputs(write_case(tmp_path, "case", {}), draws, weights)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights_are_drawn_with_their_deviation(dtype: str, tmp_path: Path) -> None:
    weight = (np.random.default_rng(1).standard_normal(SHAPE) * 0.03).astype(dtype)
    default, reference = product(weight)
    draws = weight_draws(default, reference)
    assert draws == {1: Draw(dtype, SHAPE, (1 << 32) + 1, -5)} and not weights_beside(
        default, reference, draws
    )
    drawn = redrawn(reference, draws).parameters
    assert (
        np.array_equal(drawn[1].value, draws[1].values()) and drawn[2].value is reference.parameters[2].value
    )
    made = operand(1, default.parameters[1], inputs(tmp_path, draws, {}), {})
    assert (made.line, made.member) == (f"drawn {dtype} 8x6 4294967297 -5 0 t1x0", None)


@pytest.mark.parametrize(
    "weight", [np.ones(SHAPE, np.float32), np.full(SHAPE, np.nan, np.float32), np.ones(SHAPE, np.int8)]
)
def test_other_weights_are_stored_once(weight: Array, tmp_path: Path) -> None:
    default, reference = product(weight)
    draws = weight_draws(default, reference)
    weights = weights_beside(default, reference, draws)
    assert not draws and list(weights) == [1]
    made = operand(1, default.parameters[1], inputs(tmp_path, draws, weights), {})
    assert made.member is not None and made.line == f"stored {made.member.digest} t1x0"


def test_what_steps_cannot_say_is_stored_as_it_is_packed(tmp_path: Path) -> None:
    draw = Draw("float32", SHAPE, 3)
    squares = Parameter(SHAPE, "float32", value=np.ones(SHAPE, np.float32), pack=lambda value: value * value)
    made = operand(1, squares, inputs(tmp_path, {1: draw}, {}), {})
    assert made.member is not None and made.line == f"stored {made.member.digest} -"
    assert (draw.values() ** 2).tobytes() in made.member.content

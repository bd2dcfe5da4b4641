"""What is drawn in the place of a network's weights, and what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from toolchain.arrays import Array
from toolchain.tasks.candidate import Candidate, Case, Entry, Parameter, write_case
from toolchain.tasks.draws import Draw
from toolchain.tuning.plans.operands import operand, redrawn, weight_draws

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


def case_of(tmp_path: Path, drawn: Mapping[int, Draw], weights: Mapping[int, Array]) -> Case:
    return replace(write_case(tmp_path, "case", {}), drawn=drawn, weights=weights)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights_are_drawn_with_their_deviation(dtype: str, tmp_path: Path) -> None:
    weight = (np.random.default_rng(1).standard_normal(SHAPE) * 0.03).astype(dtype)
    default, reference = product(weight)
    draws = weight_draws(default, reference)
    assert draws == {1: Draw(dtype, SHAPE, (1 << 32) + 1, -5)}
    other = redrawn(default, reference)
    assert other.drawn == draws and not other.weights
    drawn = other.parameters
    assert (
        np.array_equal(drawn[1].value, draws[1].values()) and drawn[2].value is reference.parameters[2].value
    )
    made = operand(1, default.parameters[1], case_of(tmp_path, draws, {}), {})
    assert (made.line, made.member) == (f"drawn {dtype} 8x6 4294967297 -5 0 t1x0", None)


@pytest.mark.parametrize(
    "weight", [np.ones(SHAPE, np.float32), np.full(SHAPE, np.nan, np.float32), np.ones(SHAPE, np.int8)]
)
def test_other_weights_are_stored_once(weight: Array, tmp_path: Path) -> None:
    default, reference = product(weight)
    other = redrawn(default, reference)
    assert not other.drawn and list(other.weights) == [1]
    made = operand(1, default.parameters[1], case_of(tmp_path, other.drawn, other.weights), {})
    assert made.member is not None and made.line == f"stored {made.member.digest} t1x0"


def test_what_steps_cannot_say_is_stored_as_it_is_packed(tmp_path: Path) -> None:
    draw = Draw("float32", SHAPE, 3)
    squares = Parameter(SHAPE, "float32", value=np.ones(SHAPE, np.float32), pack=lambda value: value * value)
    made = operand(1, squares, case_of(tmp_path, {1: draw}, {}), {})
    assert made.member is not None and made.line == f"stored {made.member.digest} -"
    assert (draw.values() ** 2).tobytes() in made.member.content

"""Kernels of `gemm` on the emulated driver, which finds wrong accesses and data races."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.backends.packed.algorithms.gemm.products import Product
from tests.backends.packed.computed import loaded
from tests.opencl.networks import side_by_side
from tests.testbeds.cuda.networks import emulated, error_of
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.gemm import algorithm
from toolchain.backends.packed.algorithms.gemm.algorithm import GemmChoice
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network import choices
from toolchain.backends.packed.recognise.contraction import Contraction, Matmul

pytestmark = pytest.mark.slow

CASES = (
    # One row and few: items share out the inner axis, of whole steps and with a rest.
    (Product(1, 512, 104), GemmChoice(1, 1, (2, 1), 32, depth=64)),
    (Product(1, 129, 61), GemmChoice(2, 1, (2, 1), 16, splits=2, depth=16)),
    (Product(3, 37, 50), GemmChoice(1, 3, (4, 1), 8, splits=2, depth=8, stages=3)),
    # Tiles beyond the matrix, constants of several matrices, tensor cores.
    (Product(40, 36, 44), GemmChoice(1, 2, (4, 8), depth=4, stages=3)),
    (Product(45, 39, 46), GemmChoice(2, 4, (4, 8), 2, splits=3, depth=2)),
    (Product(21, 36, 48, (2,)), GemmChoice(1, 2, (4, 8), splits=2, depth=4)),
    (Product(40, 72, 52), GemmChoice(1, 2, (2, 2), depth=4, arithmetic="3xtf32")),
    # Operands that no build knows: in vectors, along the inner axis, apart, of odd sizes.
    (Product(33, 32, 40, (2, 3), False, "b"), GemmChoice(1, 4, (8, 8), depth=4, stages=3)),
    (Product(33, 33, 33, (2, 3), False, "b"), GemmChoice(1, 2, (4, 8), 2, splits=2, depth=2)),
    (Product(17, 33, 24, (2, 3), False), GemmChoice(1, 2, (4, 8), depth=4)),
    (Product(17, 20, 23, (2,), False, "ab"), GemmChoice(1, 2, (4, 8), depth=4)),
    (Product(1, 40, 100, (), False), GemmChoice(1, 1, (4, 1), 8, depth=8)),
)

F16 = partial(GemmChoice, arithmetic="f16")
HALVES = (
    # Constants: rows in vectors, rows of an odd length, few rows, several matrices.
    (Product(40, 72, 52), F16(1, 2, (2, 2), depth=4)),
    (Product(45, 39, 46), F16(2, 1, (1, 4), 2, splits=2, depth=8, stages=3)),
    (Product(1, 129, 61), F16(1, 1, (2, 1), splits=2, depth=16)),
    (Product(21, 36, 48, (2,)), F16(1, 1, (2, 2), splits=2, depth=4)),
    # Operands that no build knows, each turned or not.
    (Product(33, 32, 40, (2, 3), False, "b"), F16(1, 4, (2, 1), 2, depth=8, stages=3)),
    (Product(33, 33, 33, (2, 3), False, "b"), F16(1, 2, (2, 2), splits=2, depth=4)),
    (Product(17, 20, 24, (2, 3), False), F16(2, 1, (1, 2), depth=4)),
    (Product(17, 20, 23, (2,), False, "ab"), F16(1, 2, (2, 1), depth=4)),
)


@pytest.mark.parametrize(
    ("dtype", "cases", "limit"), [("float32", CASES, 3e-6), ("float16", HALVES, 1e-2)], ids=["32", "16"]
)
def test_products_of_every_kind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: Path,
    dtype: str,
    cases: Sequence[tuple[Product, GemmChoice]],
    limit: float,
) -> None:
    assert state
    taken = set()

    def wanted(contraction: Contraction, machine: Machine, use_winograd: bool) -> Choice:
        if not isinstance(contraction, Matmul):
            return default_choice(contraction, machine, use_winograd)
        columns = contraction.columns.extent
        product, choice = next(each for each in cases if each[0].columns == columns)
        assert algorithm.legal(choice, contraction, machine), (product, choice)
        taken.add(product)
        return choice

    monkeypatch.setattr(choices, "default_choice", wanted)
    model = side_by_side([product.model() for product, _choice in cases])
    with emulated(monkeypatch) as board:
        assert error_of(loaded(model), board, tmp_path, dtype) < limit
    assert len(taken) == len(cases)

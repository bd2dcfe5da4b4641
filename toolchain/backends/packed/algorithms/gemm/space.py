"""The choices of `gemm`, ordered by their estimated cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from itertools import product as pairs

from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.algorithms.gemm.choice import GemmChoice
from toolchain.backends.packed.algorithms.gemm.pointwise import pointwise
from toolchain.backends.packed.algorithms.implicit_gemm import space
from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.algorithms.implicit_gemm.cost import cost as cost_of_products
from toolchain.backends.packed.loops.work_group import ARRIVALS
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import MOST_GROUPS
from toolchain.backends.packed.recognise.matmul import Matmul

_FEW = 8  # rows with which the items of a group share out the inner axis rather than places
_SPLITS = (1, 2, 4, 8)


def candidates(product: Matmul, machine: Machine) -> list[GemmChoice]:
    """Return the choices that a tuner may measure, those with the lowest estimated cost first."""
    return [*_candidates(product, machine)]


def legal(choice: GemmChoice, product: Matmul, machine: Machine) -> bool:
    """Return whether a choice fits the product, the registers and the shared memory."""
    conv = pointwise(product)
    if not space.legal(choice, conv, machine):
        return False
    if choice.on_tensor_cores and choice.arithmetic != "f16" and product.weight is None:
        return False  # copies that put each number where tensor cores take it are worth it for float16 alone
    wide = -(-conv.co // choice.channels(machine.lanes))
    tiles = wide * -(-product.rows.extent // choice.places) * product.batch.extent
    return max(wide, product.batch.extent * choice.splits) <= MOST_GROUPS and (
        choice.splits == 1 or tiles <= ARRIVALS
    )


def cost(choice: GemmChoice, product: Matmul, machine: Machine) -> Cost:
    """Return the estimated cost."""
    return cost_of_products(choice, pointwise(product), machine, product.batch.extent)


@lru_cache(maxsize=256)
def _candidates(product: Matmul, machine: Machine) -> tuple[GemmChoice, ...]:
    timed = [
        (cost(choice, product, machine).seconds, number, choice)
        for number, choice in enumerate(map(_own, _space(product, machine)))
        if legal(choice, product, machine)
    ]
    return tuple(
        choice for _seconds, _number, choice in sorted(timed, key=lambda each: each[:2])[: space.MOST]
    )


def _own(choice: ImplicitGemmChoice) -> GemmChoice:
    return GemmChoice(**{each.name: getattr(choice, each.name) for each in fields(choice)})


def _space(product: Matmul, machine: Machine) -> Iterator[ImplicitGemmChoice]:
    if product.rows.extent <= _FEW and product.dtype == "float32":
        yield from _few(product.rows.extent)
    yield from space.choices(pointwise(product), machine)


def _few(rows: int) -> Iterator[ImplicitGemmChoice]:
    """Yield choices whose items have all rows of a few columns, and share out the inner axis."""
    for own, across, slices, deep, stages in pairs((1, 2), (1, 2, 4, 8), (8, 16, 32, 64), (1, 2), (2, 3)):
        for splits in _SPLITS:
            yield ImplicitGemmChoice(own, rows, (across, 1), slices, splits, slices * deep, stages)

"""The choices of `gemm`: which are legal, and which the estimate prefers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backends.packed.contractions import Product
from toolchain.backends.packed.algorithms.dense.loops import DenseChoice
from toolchain.backends.packed.algorithms.gemm import algorithm as space
from toolchain.backends.packed.algorithms.gemm.algorithm import GemmChoice, SharedGemm
from toolchain.backends.packed.algorithms.policy import candidates, cost, default_choice
from toolchain.backends.packed.algorithms.table import choice_from
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AVX2, OPENCL, machine_of
from toolchain.backends.packed.recognise.contraction import Matmul, recognise
from toolchain.backends.packed.recognise.read import read
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target

CHOICE = GemmChoice(2, 4, (8, 4), slices=2, splits=3, depth=8, stages=3)
PRODUCTS = (
    Product(1, 512, 1000),
    Product(1, 25088, 4096),
    Product(8, 64, 10),
    Product(128, 768, 768),
    Product(128, 64, 128, batch=(12,), constant=False),
    Product(197, 197, 64, batch=(3,), constant=False),
)


def gpu(arch: str, dtype: str = "float32") -> Machine:
    return machine_of(device_target(load_profile("cuda"), "cuda", "", arch=arch, dtype=dtype))


def recognised(product: Product) -> Matmul:
    """Return a product whose constant operand is known as one."""
    found = recognise(read(product.function()))
    assert isinstance(found, Matmul)
    return found if product.constant else replace(found, weight=None)


@pytest.mark.slow
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_the_default_is_legal_and_the_cheapest(product: Product) -> None:
    matmul, machine = recognised(product), gpu("sm_90")
    found = space.candidates(matmul, machine)
    assert found[0] == default_choice(matmul, machine, use_winograd=False)
    assert all(space.legal(choice, matmul, machine) for choice in found) and len(set(found)) == len(found)
    costs = [space.cost(choice, matmul, machine).seconds for choice in found]
    assert costs == sorted(costs)
    dense = cost(
        next(each for each in candidates(matmul, machine) if isinstance(each, DenseChoice)), matmul, machine
    )
    assert dense is not None and costs[0] < dense.seconds


def test_a_row_is_shared_out_along_the_inner_axis() -> None:
    """One row by 512 by 1000: two thirds of an H100's units or more have a group, of a warp or more."""
    matmul = recognised(PRODUCTS[0])
    found = space.candidates(matmul, gpu("sm_90"))[0]
    groups = -(-1000 // found.channels(4)) * found.splits
    assert found.columns == found.tile[1] == 1 and found.slices >= 8
    assert groups >= 88 and found.items >= 32


@pytest.mark.parametrize(
    "changed",
    [{"slices": 3}, {"stages": 1}, {"tile": (8, 3)}, {"depth": 64}, {"splits": 60}, {"group": (8, 8)}],
)
def test_what_does_not_fit_is_illegal(changed: dict[str, object]) -> None:
    matmul, machine = recognised(PRODUCTS[3]), gpu("sm_80")
    assert space.legal(CHOICE, matmul, machine)
    assert not space.legal(replace(CHOICE, **changed), matmul, machine)


def test_tensor_cores_take_constants_alone_in_float32() -> None:
    """Their weights lie as lanes hold them, which is done when the network is compiled."""
    choice = GemmChoice(1, 2, (2, 2), depth=4, arithmetic="3xtf32")
    assert space.legal(choice, recognised(PRODUCTS[3]), gpu("sm_90"))
    assert not space.legal(choice, recognised(PRODUCTS[4]), gpu("sm_90"))


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_float16_is_always_computed_by_tensor_cores(product: Product) -> None:
    matmul, machine = recognised(replace(product, dtype="float16")), gpu("sm_90", "float16")
    choice = default_choice(matmul, machine, use_winograd=False)
    assert isinstance(choice, GemmChoice) and choice.arithmetic == "f16"


def test_a_grid_has_no_more_products_than_groups_along_an_axis() -> None:
    many = recognised(Product(4, 8, 4, batch=(70000,), constant=False))
    assert not space.candidates(many, gpu("sm_90"))


def test_it_is_for_gpus_with_shared_memory() -> None:
    algorithm, matmul = SharedGemm(), recognised(PRODUCTS[3])
    assert algorithm.applies(matmul, gpu("sm_80"))
    assert not algorithm.applies(matmul, AVX2) and not algorithm.applies(matmul, OPENCL)


def test_a_record_keeps_a_choice() -> None:
    assert choice_from(CHOICE.to_json()) == CHOICE

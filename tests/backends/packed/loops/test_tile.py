"""A tile adds up what its instruction multiplies: floats one at a time, int8 four at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.script.builder import ir

from tests.backends.packed.dot import DOT, Dot
from toolchain.backends.packed.dot_products import (
    Instruction,
    MultiplyAdd,
    Operand,
    Products,
    multiply_add,
)
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.machine import Loads
from toolchain.backends.packed.machines import AVX2

ROWS, INNER, BLOCKS, LANES = 3, 24, 2, 8
FLOAT = multiply_add("float32")
INSTRUCTIONS: list[Instruction] = [
    MultiplyAdd(FLOAT, LANES, "memory"),
    MultiplyAdd(FLOAT, LANES, "lane"),
    Dot(replace(DOT, inputs="uint8"), LANES, "memory"),  # as vpdpbusd has it
    Dot(DOT, LANES, "lane"),
]


def named(instruction: Instruction) -> str:
    """Return how tests tell instructions apart."""
    return f"{instruction.products.inputs} {instruction.operand}"


def product(
    instruction: Instruction,
    channels: int,
    ahead: list[int] | None = None,
    *,
    loads: Loads = "inputs",
    kept: bool = False,
) -> tirx.PrimFunc:
    """Return the function of a (ROWS, INNER) by (INNER, columns) product in one tile.

    Parameters
    ----------
    kept
        Weights of one instruction are loaded for all rows, instead of `channels` at once.
    """
    columns, products = BLOCKS * LANES, instruction.products

    def body(nest: Nest) -> None:
        a = ir.arg("a", ir.buffer((ROWS, INNER), products.inputs))
        b = ir.arg("b", ir.buffer((INNER, columns), products.weights))
        y = ir.arg("y", ir.buffer((ROWS, columns), products.sums))
        tile = Tile(nest, instruction, BLOCKS, ROWS, INNER, loads)
        inputs = tile.inputs(channels)
        with tile.loops([INNER // channels], channels) as (step,):
            first = step * channels
            if kept:
                weight = tile.kept(lambda k, block, lane: b[first + k, block * LANES + lane])
                with nest.unroll(ROWS) as row:
                    tile.add(row, lambda k: a[row, first + k], weight)
            else:
                inputs.multiply(
                    lambda row, k: a[row, first + k],
                    lambda k, block, lane: b[first + k, block * LANES + lane],
                    None if ahead is None else lambda channel: ahead.append(len(channel)),
                )
        for block, total in enumerate(tile.totals):
            with nest.unroll(ROWS) as row, nest.vector(LANES) as lane:
                ir.buffer_store(y, total[row * LANES + lane], [row, block * LANES + lane])

    return build(AVX2, body).with_attr("global_symbol", "main")


def check(function: tirx.PrimFunc, products: Products) -> None:
    """Compare with numpy what a function computes of two matrices of the instruction's types."""
    random = np.random.default_rng(0)
    a = random.integers(-128, 128, (ROWS, INNER)).astype(products.inputs)
    b = random.integers(-128, 128, (INNER, BLOCKS * LANES)).astype(products.weights)
    library = tvm.compile(tvm.IRModule({"main": function}), "llvm")
    y = tvm.runtime.tensor(np.empty((ROWS, BLOCKS * LANES), products.sums))
    library["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), y)
    assert np.array_equal(y.numpy(), a.astype("i8") @ b.astype("i8"))


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "loads"), [(4, "inputs"), (24, "inputs"), (4, "weights")])
@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=named)
def test_a_tile_is_a_product_of_matrices(instruction: Instruction, channels: int, loads: Loads) -> None:
    check(product(instruction, channels, loads=loads), instruction.products)


@pytest.mark.slow
@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=named)
def test_kept_weights_are_those_of_every_product_of_an_instruction(instruction: Instruction) -> None:
    check(product(instruction, instruction.products.depth, kept=True), instruction.products)


def test_channels_that_the_instruction_cannot_take_are_refused() -> None:
    with pytest.raises(ValueError, match="6 channels are not multiplied 4 at a time"):
        product(Dot(DOT, LANES, "memory"), 6)


@pytest.mark.parametrize("operand", ["memory", "lane"])
def test_inputs_are_loaded_once_for_all_blocks_by_lane_and_broadcast_from_memory(operand: Operand) -> None:
    """By lane a vector of inputs is kept; from memory each is read where it is multiplied."""
    function = product(MultiplyAdd(FLOAT, LANES, operand), 8)
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(function.body, [(tirx.AllocBuffer, found.append)])
    sizes = sorted(int(np.prod([int(extent) for extent in each.buffer.shape])) for each in found)
    assert sizes == [ROWS * LANES] * (BLOCKS + (operand == "lane"))


def test_what_goes_ahead_is_emitted_for_a_vector_or_for_each_channel() -> None:
    for operand, index in (("lane", 0), ("memory", 1)):
        ahead: list[int] = []
        product(MultiplyAdd(FLOAT, LANES, operand), 8, ahead)
        assert ahead == [index]

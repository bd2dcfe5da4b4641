"""A tile adds up what its instruction multiplies: floats one at a time, int8 four at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.instruction import Instruction, MultiplyAdd, Operand
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.machines import AVX2
from toolchain.backends.packed.recognise.read import Expr

ROWS, INNER, BLOCKS, LANES = 3, 24, 2, 8


@dataclass(frozen=True)
class Dot4:
    """Sums of four products of int8 in int32, as VNNI and Arm's dot products compute them."""

    operand: Operand
    lanes: int = LANES
    depth: int = 4
    inputs: str = "int8"
    sums: str = "int32"

    def emit(
        self,
        nest: Nest,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Callable[[int, Expr], Expr],
    ) -> None:
        """Emit it as numbers: what LLVM makes of it is not what is tested."""
        with nest.vector(self.lanes) as lane:
            value = total[first + lane]
            for k in range(self.depth):
                value = value + x(k).astype(self.sums) * weight(k, lane).astype(self.sums)
            ir.buffer_store(total, value, [first + lane])


INSTRUCTIONS: list[Instruction] = [
    MultiplyAdd(LANES, "float32", "memory"),
    MultiplyAdd(LANES, "float32", "lane"),
    Dot4("memory"),
    Dot4("lane"),
]


def product(instruction: Instruction, channels: int, ahead: list[int] | None = None) -> tirx.PrimFunc:
    """Return the function of a (ROWS, INNER) by (INNER, columns) product in one tile."""
    columns = BLOCKS * LANES

    def body(nest: Nest) -> None:
        a = ir.arg("a", ir.buffer((ROWS, INNER), instruction.inputs))
        b = ir.arg("b", ir.buffer((INNER, columns), instruction.inputs))
        y = ir.arg("y", ir.buffer((ROWS, columns), instruction.sums))
        tile = Tile(nest, instruction, BLOCKS, ROWS, INNER)
        inputs = tile.inputs(channels)
        with tile.loops([INNER // channels], channels) as (step,):
            first = step * channels
            inputs.multiply(
                lambda row, k: a[row, first + k],
                lambda k, block, lane: b[first + k, block * LANES + lane],
                None if ahead is None else lambda channel: ahead.append(len(channel)),
            )
        for block, total in enumerate(tile.totals):
            with nest.unroll(ROWS) as row, nest.vector(LANES) as lane:
                ir.buffer_store(y, total[row * LANES + lane], [row, block * LANES + lane])

    return build(AVX2, body).with_attr("global_symbol", "main")


@pytest.mark.parametrize("channels", [4, 8, 24])
@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=str)
def test_a_tile_is_a_product_of_matrices(instruction: Instruction, channels: int) -> None:
    random = np.random.default_rng(0)
    a, b = (
        random.integers(-128, 128, shape).astype(instruction.inputs)
        for shape in ((ROWS, INNER), (INNER, BLOCKS * LANES))
    )
    library = tvm.compile(tvm.IRModule({"main": product(instruction, channels)}), "llvm")
    y = tvm.runtime.tensor(np.empty((ROWS, BLOCKS * LANES), instruction.sums))
    library["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), y)
    assert np.array_equal(y.numpy(), a.astype("i8") @ b.astype("i8"))


def test_channels_that_the_instruction_cannot_take_are_refused() -> None:
    with pytest.raises(ValueError, match="6 channels are not multiplied 4 at a time"):
        product(Dot4("memory"), 6)


@pytest.mark.parametrize("operand", ["memory", "lane"])
def test_inputs_are_loaded_once_for_all_blocks_by_lane_and_broadcast_from_memory(operand: Operand) -> None:
    """By lane a vector of inputs is kept; from memory each is read where it is multiplied."""
    function = product(MultiplyAdd(LANES, "float32", operand), 8)
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(function.body, [(tirx.AllocBuffer, found.append)])
    sizes = sorted(int(np.prod([int(extent) for extent in each.buffer.shape])) for each in found)
    assert sizes == [ROWS * LANES] * (BLOCKS + (operand == "lane"))


def test_what_goes_ahead_is_emitted_for_a_vector_or_for_each_channel() -> None:
    for operand, index in (("lane", 0), ("memory", 1)):
        ahead: list[int] = []
        product(MultiplyAdd(LANES, "float32", operand), 8, ahead)
        assert ahead == [index]

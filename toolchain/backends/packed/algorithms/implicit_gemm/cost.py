"""The cost model of the algorithm `implicit-gemm`."""

from __future__ import annotations

from math import prod

from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.algorithms.implicit_gemm.loops import shared_words
from toolchain.backends.packed.algorithms.implicit_gemm.steps import steps_of
from toolchain.backends.packed.algorithms.launch import Launch, seconds
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.loops.work_group import WORD
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

_OTHERS = 40  # registers of an item for addresses and counters
_PEAK = 0.85  # share of its peak that a unit reaches with all factors in registers
_LOADS = 2  # times that a load from shared memory takes, in those of a multiply-add
_LANES = 4  # numbers of a vector of float32
_CYCLES = 32  # of a scheduler for a product of tensor cores whose rate is that of multiply-adds
_ROUNDING = {"3xtf32": 3, "tf32": 1, "f16": 0}  # instructions that round a factor
_PARTS = {"3xtf32": 3, "tf32": 1, "f16": 1}  # products for one
_RATES = {"3xtf32": 1 / 3, "tf32": 1.0, "f16": 2.0}  # relative to products of tfloat32
_MEETING = 4  # waits of groups that share a tile: their partial sums, a counter, and the sums of the others


def cost(choice: ImplicitGemmChoice, conv: Convolution, machine: Machine, batch: int = 1) -> Cost:
    """Return the estimated cost of a convolution, or of `batch` products; the machine has a GPU."""
    gpu, lanes = machine.gpu, machine.lanes
    if gpu is None:
        raise ValueError(f"{machine.isa} is no GPU")
    steps = steps_of(conv, choice, lanes)
    wide, units = choice.channels(lanes), steps.each * choice.depth
    rows, columns = -(-conv.co // wide), -(-conv.batch * prod(conv.out) // choice.places)
    weights = rows * wide * steps.padded * lanes * choice.factor
    values = conv.batch * (conv.ci * prod(conv.size) + conv.co * prod(conv.out)) * choice.factor
    sums = wide * choice.places * WORD
    shared = choice.splits > 1
    launch = Launch(
        groups=batch * rows * columns * choice.splits,
        items=choice.items,
        registers=registers(choice, lanes),
        local=shared_words(choice, lanes) * WORD,
        operations=2 * units * lanes * wide * choice.places / _speed(choice, gpu),
        read=units * lanes * (wide + choice.places) * choice.factor + (2 * sums if shared else sums),
        waits=1 + steps.each / (choice.stages - 1) + (_MEETING if shared else 0),
        memory=batch * (weights + values),
    )
    return Cost(seconds(launch, gpu), batch * weights)


def _speed(choice: ImplicitGemmChoice, gpu: GpuRow) -> float:
    """Return the speed of the arithmetic relative to the unit's peak of float32.

    Instructions that load and round factors take their turns between the products: the more sums an item or a
    warp has, the more products share a factor.
    """
    blocks, columns, kind = choice.blocks, choice.columns, choice.arithmetic
    if kind == "fma":
        products, others = _LANES * _LANES * blocks * columns, _LOADS * (_LANES * blocks + columns)
        return _PEAK * products / (products + others)
    took = blocks * columns * _PARTS[kind] * _CYCLES / gpu.tensors
    others = blocks * (1 + 4 * _ROUNDING[kind]) + columns * 2 * (1 + _ROUNDING[kind])
    return _PEAK * took / (took + others) * gpu.tensors * _RATES[kind]


def registers(choice: ImplicitGemmChoice, lanes: int) -> int:
    """Return the estimated registers of an item: its sums, the weights of a unit, an input, addresses."""
    if choice.on_tensor_cores:  # both parts of a factor of 4 weights, and of 2 inputs for each column
        return 4 * choice.blocks * choice.columns + 2 * (4 + 2 * choice.columns) + _OTHERS
    return choice.blocks * lanes * (choice.columns + lanes) + lanes + _OTHERS

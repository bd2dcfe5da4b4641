"""The machines that code is generated for: a row for each kind of CPU, and who chooses among them.

Registers: the architecture manuals. SSE and AVX2 have 16, AVX-512 and AArch64 32; armv7 has 16 quadword NEON
registers. Tiles: `algorithms.direct.space` says how they were measured.

Rates: rows of `architectures/table.py` have those of classes; `measured` scales them for a measured board.

64-bit ARM cores follow by themselves what is read in order, as weights are (Arm, "Cortex-A53" and "Cortex-A72
Technical Reference Manual", "data prefetching"): there prefetching would be one more instruction in twenty.
A Cortex-A9 does not see beyond its first cache, and has time for it: its products take two cycles each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from toolchain.architectures.architecture import Microarchitecture, Rates
from toolchain.architectures.rates import ClusterRates
from toolchain.architectures.table import LINUX, CodeColumn, known_architecture
from toolchain.backends.packed.dot_products import PMADDWD, SDOT, VNNI, VNNI_AVX
from toolchain.backends.packed.gpus import gpu_of
from toolchain.backends.packed.machine import FLOATS, Machine, Tiles
from toolchain.backends.packed.pairs import SMULL, VMULL
from toolchain.backends.packed.pieces import ITEMS, WorkItems
from toolchain.devices.device import Device
from toolchain.devices.table import KindTable
from toolchain.errors import UsageError
from toolchain.targets.target import BoardTarget

# A machine with the speeds that were measured on a board, in place of those of its row.
#
# What `edge-rt probe` measures is not yet what estimates need: code reaches a part of the peak, and
# winograd's transforms have no probe of their own. So the figures of a row are scaled by what was measured:
#
#     flops   by the peak of the same vectors' products: a row's share of its own peak stays
#     values  by the same: transforms are vectors of additions in L1, and keep pace with clock and vector
#     stream  what one core reads from memory while all of them do
#     again   what it reads from L3 in the time of a byte from memory
#     cache   the core's L2, as the system reports it
#
# The share of the peak and the price of spilled transforms differ between microarchitectures: the column
# `microarchitectures` of the architecture says by how much.


def measured(
    machine: Machine, rates: ClusterRates, microarchitectures: Mapping[str, Microarchitecture]
) -> Machine:
    """Return a machine with the speeds measured on a board; itself if its products were not measured."""
    row, threads = machine.rates, machine.threads
    gops = rates.product_of(row.probe, threads)
    memory, third = rates.read_of("memory", threads), rates.read_of("l3", threads)
    if gops is None or memory is None or not row.peak:
        return machine
    peak = gops * 1e9
    family = microarchitectures.get(rates.family or "")
    return replace(
        machine,
        rates=replace(
            row,
            flops=peak * (family.reached if family else row.flops / row.peak),
            values=row.values * peak / row.peak,
            stream=memory * 1e9,
            again=max(1.0, third / memory) if third else 1.0,
            spilled=family.spilled if family else row.spilled,
            peak=peak,
            source="measured on the board",
            cache=(rates.l2_kib or 0) << 10,
        ),
    )


_X86_RATES = LINUX["x86_64"].rates

SSE = Machine(
    isa="sse",
    vector=16,
    registers=16,
    operand="memory",
    prefetches=True,
    near=18 << 10,
    cache=1 << 20,
    rates=_X86_RATES["x86-64"],
    tiles=Tiles(blocks=(4, 2, 3), columns=14, widened=9),
    products=(PMADDWD, *FLOATS),
)
AVX2 = Machine(
    isa="avx2",
    vector=32,
    registers=16,
    operand="memory",
    prefetches=True,
    near=18 << 10,
    cache=2 << 20,
    rates=_X86_RATES["x86-64-v3"],
    tiles=Tiles(blocks=(3, 2, 5), columns=14, widened=9),
    products=(VNNI_AVX, PMADDWD, *FLOATS),
    divides=True,
    fuses=True,
)
AVX512 = Machine(
    isa="avx512",
    vector=64,
    registers=32,
    operand="memory",
    prefetches=True,
    near=18 << 10,
    cache=2 << 20,
    rates=_X86_RATES["x86-64-v4"],
    tiles=Tiles(blocks=(2, 3, 5), columns=14, transposed=14),
    products=(VNNI, PMADDWD, *FLOATS),
    fuses=True,
)
# More than 23 sums spill.
AARCH64 = Machine(
    isa="aarch64",
    vector=16,
    registers=32,
    operand="lane",
    prefetches=False,
    near=16 << 10,
    cache=1 << 20,
    rates=LINUX["aarch64"].rates["neon"],
    tiles=Tiles(
        sums=18, pointwise=20, depthwise=(14, 7), short=7, transposed=8, flattens=True, spare="narrow"
    ),
    products=(SDOT, SMULL, *FLOATS),
    fuses=True,
)
# For cores that issue in order LLVM unrolls loops further (getUnrollingPreferences in its
# AArch64TargetTransformInfo.cpp): it computes two steps at a time, which takes more registers.
AARCH64_IN_ORDER = replace(
    AARCH64,
    in_order=True,
    tiles=replace(AARCH64.tiles, pointwise=None, depthwise=(8, 4), spare="all"),
)
ARMV7 = Machine(
    isa="armv7",
    vector=16,
    registers=16,
    operand="lane",
    prefetches=True,
    near=16 << 10,
    cache=512 << 10,
    rates=LINUX["armv7a"].rates["neon"],
    # A division is a call of a function. LLVM computes two depthwise tiles of a loop at the same time.
    tiles=Tiles(sums=8, strided=6, depthwise=(4, 2), short=14, paired=8, paired_blocks=(4, 2, 3)),
    products=(VMULL, *FLOATS),
)

# A Mali-T860 of four cores at 800 MHz. Rates: 33.7 GFLOPS of four are what a real compiler for it and its
# pipes give for a 3x3 convolution in such tiles (a model); transforms and bandwidth are guesses.
# Depthwise tiles by the model, of 3x3 on 56x56: 4 columns 0.38 ms and no spill, 7 0.90 and 22; at stride 2
# 3 columns 0.24 ms and 2 spills, 4 0.31 and 8, 7 0.54 and 28.
# Registers: vectors of 512 bytes that an item may keep, beyond which some are spilled.
OPENCL = Machine(
    isa="opencl",
    vector=16,
    registers=32,
    operand="lane",
    prefetches=False,
    near=16 << 10,
    cache=256 << 10,
    rates=Rates(8.4e9, 0.8e9, 2e9),
    tiles=Tiles(blocks=(1,), columns=7, depthwise=(4, 3), transposed=7),
    pieces=WorkItems(ITEMS),
    widths=(2, 4, 8, 16),
    loads="weights",
    group=256,
)

# An item's private memory is its 255 registers of 4 bytes. CUDA C++ has vectors of 2 and 4 numbers.
CUDA = replace(OPENCL, isa="cuda", registers=63, widths=(2, 4))

_X86 = {"x86-64": SSE, "x86-64-v2": SSE, "x86-64-v3": AVX2, "x86-64-v4": AVX512}
_IN_ORDER = {f"cortex-a{number}" for number in (34, 35, 53, 55, 510, 520)}


def _x86_64(target: BoardTarget) -> Machine:
    return _X86[target.level]


def _aarch64(target: BoardTarget) -> Machine:
    return AARCH64_IN_ORDER if target.cpu in _IN_ORDER else AARCH64


def _armv7a(target: BoardTarget) -> Machine:
    del target
    return ARMV7


MACHINES: CodeColumn[Callable[[BoardTarget], Machine]] = CodeColumn(
    "machine",
    "MACHINES in toolchain/backends/packed/machines.py",
    {"x86_64": _x86_64, "aarch64": _aarch64, "armv7a": _armv7a},
)
"""Returns the machine of a CPU's target, by architecture."""


def machine_of(target: BoardTarget, *, integers: bool = False) -> Machine:
    """Return the machine that a target's code is generated for.

    Parameters
    ----------
    integers
        Whether it has its instructions for 8-bit integers; networks of floats are generated without.

    Raises
    ------
    UsageError
        The architecture of the target is unknown, or no machine is known for its device.
    MissingError
        The architecture has no machine.
    """
    if target.limits is not None:
        made = DEVICES.find(target.limits.kind)
        if made is None:
            raise UsageError(
                f"--device {target.limits.kind}: no machine is known for packed code on it",
                "use another --layout, or --device cpu",
            )
        rounds = target.dtype == "tfloat32"
        dtype = "float32" if rounds else target.dtype
        return replace(made(target.limits, dtype).of(target.limits.compute_units or 1, dtype), rounds=rounds)
    architecture = known_architecture(target.triple)
    machine = MACHINES.of(architecture)(target)
    machine = machine.having(architecture.products_of(target.requires)).of(target.threads, target.dtype)
    machine = machine if integers else machine.without_integers()
    if target.rates is None:
        return machine
    return measured(machine, target.rates, architecture.microarchitectures)


def _opencl(limits: Device, dtype: str) -> Machine:
    row = within(OPENCL, limits)
    # Eight weights, an input, four parts of sums and three addresses are the 16 registers; with totals in
    # float32 each column has 48 bytes of sums. 5 columns would leave rests of rows of 112, 56 and 28.
    return replace(row, tiles=replace(row.tiles, columns=4)) if dtype == "float16" else row


def _cuda(limits: Device, dtype: str) -> Machine:
    row = replace(within(CUDA, limits), shared=limits.local_bytes or 0, gpu=gpu_of(limits))
    # CUDA C++ has no vectors of eight numbers, as 16 bytes of float16 are.
    return replace(row, vector=row.vector // 2) if dtype == "float16" else row


DEVICES: KindTable[Callable[[Device, str], Machine]] = KindTable(
    "machine", {"opencl": _opencl, "cuda": _cuda}
)
"""Returns the machine, given a device's entry of a board class and a type of numbers; by kind."""


def within(machine: Machine, limits: Device) -> Machine:
    """Return a machine within the limits of a class's device."""
    vector = limits.vector_bytes or machine.vector
    group = limits.max_work_group or machine.group
    return replace(
        machine,
        vector=vector,
        registers=max(machine.lanes + 2, (limits.private_bytes or 0) // vector),
        pieces=WorkItems(min(ITEMS, group)),
        group=group,
    )

"""The machine of RISC-V's vectors, with the 128 bits that every core with RVV 1.0 has."""

from __future__ import annotations

from tests.riscv64.row import RISCV64
from toolchain.backends.packed.machine import FLOATS, Machine, Tiles
from toolchain.errors import UsageError
from toolchain.targets.target import BoardTarget

RVV = Machine(
    isa="rvv",
    vector=16,
    registers=32,
    operand="memory",  # vfmacc.vf multiplies a vector by a scalar
    prefetches=False,
    near=16 << 10,
    cache=512 << 10,
    rates=RISCV64.rates["rv64gcv"],
    tiles=Tiles(sums=18),
    products=FLOATS,
    fuses=True,
)


def rvv(target: BoardTarget) -> Machine:
    """Return the machine of a target."""
    if target.level != "rv64gcv" or "-v" not in target.features:
        raise UsageError(
            f"{target.cpu}: code for RISC-V needs vectors, without scalable loops",
            'the class needs features = ["-v"], and "+zve64d", "+zvl128b" if the cpu has no vectors',
        )
    return RVV

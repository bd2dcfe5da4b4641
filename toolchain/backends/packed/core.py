"""What the generators must know of a CPU core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolchain.targets.target import BoardTarget

Form = Literal["broadcast", "lanes"]


@dataclass(frozen=True)
class Core:
    """A core as the generators see it.

    Attributes
    ----------
    lanes
        Numbers of one vector register, of the type that the network computes in; also the channels of a
        block.
    registers
        Vector registers.
    form
        How one input channel meets a vector of output channels: `broadcast` from memory (x86), or
        `lanes`: a vector of input channels is loaded once and multiplied lane by lane (ARM).
    threads
        Cores that work on one network.
    dtype
        What the network computes in.
    doubled
        LLVM computes two steps of a loop at a time, which takes more registers.
    """

    lanes: int
    registers: int
    form: Form
    threads: int
    dtype: str = "float32"
    doubled: bool = False

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 2 if self.dtype == "float16" else 4

    @property
    def fetches(self) -> bool:
        """Whether code asks for weights before it needs them.

        64-bit ARM cores follow by themselves what is read in order, as weights are (Arm, "Cortex-A53" and
        "Cortex-A72 Technical Reference Manual", "data prefetching"): there it would be one more instruction
        in twenty. A Cortex-A9 does not see beyond its first cache, and has time for it: its products take
        two cycles each.
        """
        return self.form == "broadcast" or self.registers == 16


# Registers: the architecture manuals. SSE and AVX2 have 16, AVX-512 and AArch64 32; armv7 has 16
# quadword NEON registers.
_X86 = {"x86-64-v4": (16, 32), "x86-64-v3": (8, 16)}
_SSE = (4, 16)
# For cores that issue in order LLVM unrolls loops further (getUnrollingPreferences in its
# AArch64TargetTransformInfo.cpp).
_IN_ORDER = {f"cortex-a{number}" for number in (34, 35, 53, 55, 510, 520)}


def core_of(target: BoardTarget) -> Core:
    """Return the core that a target's code is generated for."""
    denser = 2 if target.dtype == "float16" else 1
    if target.triple.startswith("x86_64"):
        lanes, registers = _X86.get(target.level, _SSE)
        return Core(lanes * denser, registers, "broadcast", target.threads, target.dtype)
    registers = 32 if target.triple.startswith("aarch64") else 16
    return Core(4 * denser, registers, "lanes", target.threads, target.dtype, target.cpu in _IN_ORDER)

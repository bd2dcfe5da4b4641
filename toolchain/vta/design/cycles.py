"""What the cycle model counts with. It is a model: no constant here was fitted to a board."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MODEL_VERSION = 1
"""Goes up with every change of a constant or of the way to count: records of two versions don't compare."""


@dataclass(frozen=True)
class Fabric:
    """What a design runs on.

    Attributes
    ----------
    mhz
        Its clock.
    bus_bytes
        Bytes a clock that its bus to memory moves.
    """

    mhz: int
    bus_bytes: int


@dataclass(frozen=True)
class CycleModel:
    """Cycles of instructions; the stages run beside each other and wait for tokens.

    Attributes
    ----------
    fetch
        Of each instruction, in the order of the program.
    overhead
        Of each instruction, in its stage.
    dma_row
        Before each row of a LOAD or STORE; then `bus_bytes` a cycle.
    pipeline
        Until a GEMM or ALU instruction's first step is through.
    gemm_step, alu_step
        Of each step after it.
    """

    bus_bytes: int
    mhz: int
    fetch: int = 2
    overhead: int = 10
    dma_row: int = 40
    pipeline: int = 12
    gemm_step: int = 1
    alu_step: int = 2
    version: int = MODEL_VERSION

    def milliseconds(self, cycles: int) -> float:
        """Return how long that takes at the design's clock."""
        return cycles / self.mhz / 1000

    def document(self) -> dict[str, Any]:
        """Return the constants for `--json`."""
        return asdict(self)

"""The constants of the cycle model. None of them was fitted to a board."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MODEL_VERSION = 1
"""Incremented with every change of a constant or of the model: records of two versions are incomparable."""


@dataclass(frozen=True)
class Fabric:
    """The FPGA on which a design runs.

    Attributes
    ----------
    mhz
        Clock rate in MHz.
    bus_bytes
        Bytes that its memory bus moves per clock cycle.
    """

    mhz: int
    bus_bytes: int


@dataclass(frozen=True)
class CycleModel:
    """Cycles of instructions. The stages run in parallel and wait for tokens.

    Attributes
    ----------
    fetch
        Cycles to fetch an instruction, in program order.
    overhead
        Cycles of overhead of each instruction in its stage.
    dma_row
        Cycles before each row of a LOAD or STORE, which then moves `bus_bytes` per cycle.
    pipeline
        Latency of the first step of a GEMM or ALU instruction, in cycles.
    gemm_step, alu_step
        Cycles of each further step.
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
        """Convert cycles to milliseconds at the design's clock rate."""
        return cycles / self.mhz / 1000

    def document(self) -> dict[str, Any]:
        """Return the constants for `--json`."""
        return asdict(self)

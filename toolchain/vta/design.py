"""A configuration of VTA: the parameters of a design, and what follows from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

# The constants of the cycle model. None of them was fitted to a board.

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


BITS_OF_INSTRUCTION = 128
BITS_OF_MICRO_OP = 32
MOST_BYTES = 32 * 2**20
"""Largest memory of a program, and largest size of its instructions: the limit of the stock driver."""
PAGE_BYTES = 4096
QUEUE_INSTRUCTIONS = 512
"""Capacity of a stage's queue; if it is full, fetching stops, and the other stages get no instructions."""
MOST_TOKENS = 255
"""Capacity of a queue of tokens; one implementation loses tokens beyond it."""
HAZARD_STEPS = 4
"""Least number of steps of an instruction between two uses of an element of ACC; a guess (decision 0045)."""


class Sram(IntEnum):
    """The buffers on the chip, with their numbers in instructions."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5
    """ACC loaded from int8; one of several simulators supports it, no hardware does."""


@dataclass(frozen=True)
class Buffer:
    """A buffer on the chip.

    Attributes
    ----------
    element_bytes
        Size of an element, on the chip and in DRAM.
    depth
        Number of elements.
    """

    element_bytes: int
    depth: int

    @property
    def index_bits(self) -> int:
        """Number of bits of an index."""
        return self.depth.bit_length() - 1


@dataclass(frozen=True)
class VtaConfig:
    """A configuration, with its file's names in lower case; `config_file.find_config` returns valid ones.

    Attributes
    ----------
    target
        `TARGET`: the board, or a simulator.
    hw_ver
        `HW_VER`: decides the encoding of instructions.
    """

    target: str
    hw_ver: str = "0.0.2"
    log_inp_width: int = 3
    log_wgt_width: int = 3
    log_acc_width: int = 5
    log_batch: int = 0
    log_block: int = 4
    log_uop_buff_size: int = 15
    log_inp_buff_size: int = 15
    log_wgt_buff_size: int = 18
    log_acc_buff_size: int = 17

    @property
    def isa_rev(self) -> int:
        """Revision of the instruction encoding: 1 or 2."""
        return ISA_REVISIONS[self.hw_ver]

    @property
    def batch(self) -> int:
        """Number of rows in an element of INP, ACC and OUT."""
        return 1 << self.log_batch

    @property
    def block(self) -> int:
        """Number of lanes: the input channels, and output channels, of a step."""
        return 1 << self.log_block

    @property
    def bitstream(self) -> str:
        """Name of the design; it contains every parameter but `HW_VER` and `TARGET`."""
        widths = f"i{1 << self.log_inp_width}w{1 << self.log_wgt_width}a{1 << self.log_acc_width}"
        sizes = f"{self.log_uop_buff_size}_{self.log_inp_buff_size}"
        sizes = f"{sizes}_{self.log_wgt_buff_size}_{self.log_acc_buff_size}"
        return f"{self.batch}x{self.block}_{widths}_{sizes}"

    @cached_property
    def buffers(self) -> dict[Sram, Buffer]:
        """The buffers on the chip; `ACC_8BIT` is `ACC`, with the elements of OUT in DRAM."""
        inp = self.batch * self.block << self.log_inp_width >> 3
        wgt = self.block * self.block << self.log_wgt_width >> 3
        acc = self.batch * self.block << self.log_acc_width >> 3
        depth = (1 << self.log_acc_buff_size) // acc
        return {
            Sram.UOP: _buffer(BITS_OF_MICRO_OP // 8, self.log_uop_buff_size),
            Sram.WGT: _buffer(wgt, self.log_wgt_buff_size),
            Sram.INP: _buffer(inp, self.log_inp_buff_size),
            Sram.ACC: Buffer(acc, depth),
            Sram.OUT: Buffer(inp, depth),
            Sram.ACC_8BIT: Buffer(inp, depth),
        }

    @property
    def fabric(self) -> Fabric:
        """Clock and bus of the target's FPGA."""
        return FABRICS[self.target]

    @property
    def cycles(self) -> CycleModel:
        """Constants of the cycle model; they were not fitted to a board."""
        return CycleModel(bus_bytes=self.fabric.bus_bytes, mhz=self.fabric.mhz)

    def document(self) -> dict[str, Any]:
        """Return the configuration for `--json`: the parameters in the file, and derived values."""
        return {
            "bitstream": self.bitstream,
            "isa_rev": self.isa_rev,
            "parameters": self.parameters(),
            "batch": self.batch,
            "block": self.block,
            "buffers": {
                memory.name: {
                    "bytes": buffer.element_bytes * buffer.depth,
                    "element_bytes": buffer.element_bytes,
                    "depth": buffer.depth,
                    "index_bits": buffer.index_bits,
                }
                for memory, buffer in self.buffers.items()
                if memory is not Sram.ACC_8BIT
            },
            "cycle_model": self.cycles.document(),
        }

    def parameters(self) -> dict[str, Any]:
        """Return the file's keys and values, in the file's order."""
        return {key: getattr(self, key.lower()) for key in KEYS}


def _buffer(element_bytes: int, log_bytes: int) -> Buffer:
    return Buffer(element_bytes, (1 << log_bytes) // element_bytes)


ISA_REVISIONS = {"0.0.1": 1, "0.0.2": 2}
"""Revision of the encoding by `HW_VER`."""

KEYS = tuple(field.upper() for field in VtaConfig.__dataclass_fields__)
"""Keys of a configuration's file."""

_SLOW, _FAST = Fabric(100, 8), Fabric(333, 16)

FABRICS = {
    "pynq": _SLOW,
    "ultra96": _FAST,
    "zcu104": _FAST,
    "de10nano": _SLOW,
    "sim": _SLOW,
    "tsim": _SLOW,
}
"""Fabrics by `TARGET`. Simulators count as a Pynq, as unknown targets do upstream."""

SAMPLES = {
    "pynq": VtaConfig("pynq"),
    "ultra96": VtaConfig("ultra96"),
    "zcu104": VtaConfig("zcu104", hw_ver="0.0.1"),
    "de10nano": VtaConfig("de10nano"),
    "simulator": VtaConfig("sim"),
}
"""The configurations that upstream publishes, by name."""


def of_revision(config: VtaConfig, isa_rev: int | None) -> VtaConfig:
    """Return a configuration with another encoding of instructions; None leaves it unchanged."""
    if isa_rev is None:
        return config
    version = next(version for version, revision in ISA_REVISIONS.items() if revision == isa_rev)
    return replace(config, hw_ver=version)

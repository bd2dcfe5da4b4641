"""The requests and answers of `edge-rt vta`; native/src/vta/requests.md specifies them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from toolchain.answers import Answer
from toolchain.errors import UsageError
from toolchain.quantities import counted
from toolchain.vta.design import MOST_BYTES, VtaConfig
from toolchain.vta.isa import INSTRUCTION_BYTES

HAZARD_DISTANCE, QUEUE, TOKENS = 4, 512, 255
"""Steps between two uses of an element of ACC; capacity of a queue of instructions; of a queue of tokens."""
MOST_STEPS = 2**28
"""Largest number of steps of a program, which take some seconds. ResNet-18 has 7 million."""

_VERSION = 1
_REQUEST, _ANSWER = struct.Struct("<27I"), struct.Struct("<7I")
_STRICT, _TIME_ONLY, _TIMELINE, _NO_MEMORY = 1, 2, 4, 8
_LONGEST = 2**20  # largest JSON document, in bytes


@dataclass(frozen=True)
class EncodedProgram:
    """Encoded instructions and their memory.

    Attributes
    ----------
    code
        The encoded instructions.
    memory
        Content of the memory before the run; it begins at the physical address `phys_base`.
    """

    config: VtaConfig
    code: bytes
    memory: bytes
    phys_base: int = 0x1000

    @property
    def instructions(self) -> int:
        """Number of instructions."""
        return len(self.code) // INSTRUCTION_BYTES


@dataclass(frozen=True)
class SimOptions:
    """Options of a simulation.

    Attributes
    ----------
    strict
        Whether to refuse programs that only some implementations of VTA run.
    computes
        Whether to run the program on its memory; if not, only the cycle model runs, which needs no memory.
    memory
        Whether to return the memory after the run.
    timeline
        Whether to return the cycles in which each instruction begins and ends.
    """

    strict: bool = False
    computes: bool = True
    memory: bool = True
    timeline: bool = False


class StageTimes(Answer):
    """Cycles that a stage was busy, waited for tokens, or waited for its next instruction."""

    instructions: int = Field(ge=0)
    busy: int = Field(ge=0)
    wait_tokens: int = Field(ge=0)
    wait_fetch: int = Field(ge=0)


class Stages(Answer):
    """The times of the three stages."""

    load: StageTimes
    compute: StageTimes
    store: StageTimes


class CycleCounts(Answer):
    """The result of the cycle model for a run."""

    NAME: ClassVar[str] = "the answer of `edge-rt vta`"

    cycles: int = Field(ge=0)
    dma_bytes: int = Field(ge=0)
    gemm_steps: int = Field(ge=0)
    alu_steps: int = Field(ge=0)
    stages: Stages


class Refused(Answer):
    """The reason why a program did not run to its end.

    Attributes
    ----------
    rule
        Name of the broken rule; native/src/vta/requests.md lists them.
    instruction
        Index of the instruction; None if the whole program breaks the rule.
    """

    rule: str = Field(max_length=64)
    instruction: int | None = Field(ge=0)
    message: str


@dataclass(frozen=True)
class Announced:
    """The header of an answer: whether the program was refused, and the sizes of the parts that follow."""

    refused: bool
    document: int
    memory: int
    timeline: int


ANSWER_BYTES = _ANSWER.size


def request_of(program: EncodedProgram, wish: SimOptions, number: int) -> bytes:
    """Return the header of a request, which precedes the instructions and the memory.

    Raises
    ------
    UsageError
        The program is truncated, or larger than a driver allows.
    """
    if len(program.code) % INSTRUCTION_BYTES:
        raise UsageError(
            f"a program of {counted(len(program.code), 'byte')}, not a multiple of {INSTRUCTION_BYTES}: "
            "it was cut",
            "write it again",
        )
    for what, size in (("instructions", len(program.code)), ("memory", len(program.memory))):
        if size > MOST_BYTES:
            raise UsageError(
                f"{size} bytes of {what}, but the driver moves at most {MOST_BYTES} at once",
                "make it smaller",
            )
    config, model = program.config, program.config.cycles
    flags = _STRICT * wish.strict + _TIME_ONLY * (not wish.computes)
    flags += _TIMELINE * wish.timeline + _NO_MEMORY * (not wish.memory)
    sizes = (config.log_uop_buff_size, config.log_inp_buff_size, config.log_wgt_buff_size)
    return _REQUEST.pack(
        *(int.from_bytes(b"VTAQ", "little"), _VERSION, number, flags),
        *(config.isa_rev, config.log_batch, config.log_block, *sizes, config.log_acc_buff_size),
        *(model.version, model.fetch, model.overhead, model.dma_row, model.bus_bytes),
        *(model.pipeline, model.gemm_step, model.pipeline, model.alu_step),
        *(HAZARD_DISTANCE, QUEUE, TOKENS, MOST_STEPS),
        *(program.phys_base, len(program.memory), program.instructions),
    )


def announced(header: bytes, program: EncodedProgram, wish: SimOptions, number: int) -> Announced | None:
    """Parse the header of an answer; return None if it does not fit the request."""
    magic, version, echo, refused, document, memory, timeline = _ANSWER.unpack(header)
    header_of_answer = Announced(bool(refused), document, memory, timeline)
    complete = Announced(
        False,
        document,
        len(program.memory) * (wish.computes and wish.memory),
        len(program.code) * wish.timeline,
    )
    known = magic == int.from_bytes(b"VTAA", "little") and (version, echo) == (_VERSION, number)
    fits = header_of_answer == (Announced(True, document, 0, 0) if refused else complete)
    return header_of_answer if known and fits and document <= _LONGEST else None


def intervals(data: bytes) -> npt.NDArray[np.uint64]:
    """Parse a timeline: for each instruction the cycles in which it begins and ends."""
    return np.frombuffer(data, dtype="<u8").reshape(-1, 2)

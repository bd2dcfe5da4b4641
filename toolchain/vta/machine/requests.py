"""What `edge-rt vta` reads and writes, as native/src/vta/requests.md says."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from toolchain.answers import Answer
from toolchain.errors import UsageError
from toolchain.vta.design.config import MOST_BYTES, VtaConfig
from toolchain.vta.isa import INSTRUCTION_BYTES

HAZARD_DISTANCE, QUEUE, TOKENS = 4, 512, 255
"""Steps between two uses of an element of ACC; instructions, and tokens, that a queue holds."""
MOST_STEPS = 2**28
"""Of a program: some seconds. ResNet-18 has 7 million."""

_VERSION = 1
_REQUEST, _ANSWER = struct.Struct("<27I"), struct.Struct("<7I")
_STRICT, _TIME_ONLY, _TIMELINE, _NO_MEMORY = 1, 2, 4, 8
_LONGEST = 2**20  # bytes of a document


@dataclass(frozen=True)
class Program:
    """Instructions and the memory that they work on.

    Attributes
    ----------
    code
        The instructions, encoded.
    memory
        All that they may touch, as it is before; it begins at the physical address `phys_base`.
    """

    config: VtaConfig
    code: bytes
    memory: bytes
    phys_base: int = 0x1000

    @property
    def instructions(self) -> int:
        """How many there are."""
        return len(self.code) // INSTRUCTION_BYTES


@dataclass(frozen=True)
class Wish:
    """What is to be found out about a program.

    Attributes
    ----------
    strict
        Refuse what only some implementations of the machine run.
    computes
        Run it on its memory; else only the cycle model is asked, which needs no memory.
    memory, timeline
        Answer with the memory as it is after; with the cycles in which each instruction begins and ends.
    """

    strict: bool = False
    computes: bool = True
    memory: bool = True
    timeline: bool = False


class StageTimes(Answer):
    """Cycles of a stage: at work, waiting for tokens, waiting for its next instruction."""

    instructions: int = Field(ge=0)
    busy: int = Field(ge=0)
    wait_tokens: int = Field(ge=0)
    wait_fetch: int = Field(ge=0)


class Stages(Answer):
    """The three queues."""

    load: StageTimes
    compute: StageTimes
    store: StageTimes


class Model(Answer):
    """What the cycle model says of a run."""

    NAME: ClassVar[str] = "the answer of `edge-rt vta`"

    cycles: int = Field(ge=0)
    dma_bytes: int = Field(ge=0)
    gemm_steps: int = Field(ge=0)
    alu_steps: int = Field(ge=0)
    stages: Stages


class Refused(Answer):
    """Why a program was not run to its end.

    Attributes
    ----------
    rule
        One word; native/src/vta/requests.md lists them.
    instruction
        Its index; None where it is the program as a whole.
    """

    rule: str = Field(max_length=64)
    instruction: int | None = Field(ge=0)
    message: str


@dataclass(frozen=True)
class Announced:
    """What follows an answer's header."""

    refused: bool
    document: int
    memory: int
    timeline: int


ANSWER_BYTES = _ANSWER.size


def request_of(program: Program, wish: Wish, number: int) -> bytes:
    """Return what to write before the instructions and the memory.

    Raises
    ------
    UsageError
        The program is cut, or larger than any machine's.
    """
    if len(program.code) % INSTRUCTION_BYTES:
        raise UsageError(
            f"a program of {len(program.code)} bytes, no multiple of {INSTRUCTION_BYTES}: it was cut",
            "write it again",
        )
    for what, size in (("instructions", len(program.code)), ("memory", len(program.memory))):
        if size > MOST_BYTES:
            raise UsageError(
                f"{size} bytes of {what}, where the driver moves at most {MOST_BYTES} at once",
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


def announced(header: bytes, program: Program, wish: Wish, number: int) -> Announced | None:
    """Return what an answer's header says; None where it cannot be right."""
    magic, version, echo, refused, document, memory, timeline = _ANSWER.unpack(header)
    said = Announced(bool(refused), document, memory, timeline)
    whole = Announced(
        False,
        document,
        len(program.memory) * (wish.computes and wish.memory),
        len(program.code) * wish.timeline,
    )
    known = magic == int.from_bytes(b"VTAA", "little") and (version, echo) == (_VERSION, number)
    fits = said == (Announced(True, document, 0, 0) if refused else whole)
    return said if known and fits and document <= _LONGEST else None


def intervals(data: bytes) -> npt.NDArray[np.uint64]:
    """Return a timeline: for each instruction when it begins and ends."""
    return np.frombuffer(data, dtype="<u8").reshape(-1, 2)

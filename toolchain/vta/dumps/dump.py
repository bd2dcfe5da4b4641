"""Reads, writes and runs dumps: folders with a program, the memory before it and the expected memory after.

Any implementation of VTA can run a dump. `insn.bin` contains the instructions, `dram.bin` the memory before,
which begins at the physical address `phys_base`, `expected.bin` the memory after. `layout.json` contains
everything else, and is written last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from toolchain.errors import UsageError
from toolchain.files.atomic import cannot_write, write_bytes, write_text
from toolchain.files.plain import open_plain
from toolchain.files.turns import TURN_S, folder_turn
from toolchain.foreign import printable, shortened
from toolchain.quantities import counted
from toolchain.vta.config_file import config_from
from toolchain.vta.design import MOST_BYTES, PAGE_BYTES, SAMPLES, VtaConfig
from toolchain.vta.isa.encode import INSTRUCTION_BYTES, decode_program
from toolchain.vta.isa.instructions import Instruction
from toolchain.vta.machine.requests import CycleCounts, EncodedProgram, Refused, SimOptions
from toolchain.vta.machine.simulator import DEADLINE_S, Outcome, Simulator

INSTRUCTIONS, BEFORE, AFTER, LAYOUT = "insn.bin", "dram.bin", "expected.bin", "layout.json"
PHYSICAL_BASE = PAGE_BYTES
"""Physical address of a dump's memory: simulators have no page 0."""

_LARGEST_LAYOUT = 2**20
_MOST = 4096  # largest number of inputs, and of outputs
_AGAIN = "write the dump again"
_GIVE_DUMP = (
    f"give a folder with {INSTRUCTIONS}, {BEFORE} and {LAYOUT}, as `vta compile --dump DIR` writes it"
)
_ITEM_BYTES = {"int8": 1, "uint8": 1, "int32": 4, "float32": 4}


class Place(BaseModel):
    """An input or an output in a dump's memory.

    Attributes
    ----------
    offset, bytes
        Offset in the memory and size, in bytes.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    offset: int = Field(ge=0, lt=2**32)
    bytes: int = Field(ge=1, lt=2**32)
    shape: Annotated[tuple[Annotated[int, Field(ge=1, lt=2**32)], ...], Field(max_length=16, strict=False)]
    dtype: Literal["int8", "uint8", "int32", "float32"]


def _inside(places: tuple[Place, ...]) -> tuple[Place, ...]:
    for place in places:
        if math.prod(place.shape) * _ITEM_BYTES[place.dtype] != place.bytes:
            raise ValueError(
                f"{counted(place.bytes, 'byte is', 'bytes are')} not {place.shape} of {place.dtype}"
            )
    return places


_Places = Annotated[tuple[Place, ...], Field(max_length=_MOST, strict=False), AfterValidator(_inside)]


class _Layout(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    insn_count: int = Field(ge=1, le=MOST_BYTES // INSTRUCTION_BYTES)
    phys_base: int = Field(ge=0, lt=2**32)
    arena_bytes: int = Field(ge=1, le=MOST_BYTES)
    inputs: _Places = ()
    outputs: _Places = ()
    config: dict[str, Any] = Field(default_factory=lambda: SAMPLES["pynq"].parameters())


@dataclass(frozen=True)
class Dump:
    """A VTA program, with the memory before it runs and the expected memory after it.

    Attributes
    ----------
    program
        The encoded instructions.
    before, after
        Contents of the memory, which begins at `phys_base`. `after` is None if it was not computed.
    """

    config: VtaConfig
    program: bytes
    before: bytes
    after: bytes | None = None
    inputs: Sequence[Place] = ()
    outputs: Sequence[Place] = ()
    phys_base: int = PHYSICAL_BASE


def write_dump(folder: Path, dump: Dump) -> None:
    """Write the files of a dump, a VTA program with its memory.

    An existing dump is replaced, and is invalid until all files are written. One process at a time writes.

    Raises
    ------
    ToolchainError
        The file system refused, or another process goes on writing into the folder.
    """
    with folder_turn(folder, TURN_S, f"writing a dump into {folder}"):
        try:
            (folder / LAYOUT).unlink(missing_ok=True)
            (folder / AFTER).unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from error
        write_bytes(folder / INSTRUCTIONS, dump.program)
        write_bytes(folder / BEFORE, dump.before)
        if dump.after is not None:
            write_bytes(folder / AFTER, dump.after)
        write_text(folder / LAYOUT, json.dumps(layout_of(dump), indent=2) + "\n")


def layout_of(dump: Dump) -> dict[str, Any]:
    """Return the content of a dump's `layout.json`."""
    return {
        "insn_count": len(dump.program) // INSTRUCTION_BYTES,
        "phys_base": dump.phys_base,
        "arena_bytes": len(dump.before),
        "inputs": [place.model_dump(mode="json") for place in dump.inputs],
        "outputs": [place.model_dump(mode="json") for place in dump.outputs],
        "config": dump.config.parameters(),
    }


def read_dump(folder: Path) -> Dump:
    """Read the dump of a VTA program and its memory from a folder; check that the files fit together.

    Raises
    ------
    UsageError
        A file is missing, unreadable, truncated, too long or inconsistent; the message names it.
    """
    layout = _read_layout(folder / LAYOUT)
    config = config_from(layout.config, folder / LAYOUT)
    size = layout.arena_bytes
    for name, places in (("inputs", layout.inputs), ("outputs", layout.outputs)):
        for number, place in enumerate(places):
            if place.offset + place.bytes > size:
                reason = f"bytes {place.offset} to {place.offset + place.bytes} are outside of the memory"
                raise _wrong(folder / LAYOUT, f"{name}.{number}: {reason} of {size}")
    after = folder / AFTER
    return Dump(
        config,
        _of_size(folder / INSTRUCTIONS, layout.insn_count * INSTRUCTION_BYTES, "insn_count"),
        _of_size(folder / BEFORE, size, "arena_bytes"),
        _of_size(after, size, "arena_bytes") if after.exists() else None,
        layout.inputs,
        layout.outputs,
        layout.phys_base,
    )


def read_program(file: Path) -> bytes:
    """Read a file of instructions.

    Raises
    ------
    UsageError
        The file cannot be read, or is longer than any program.
    """
    return _read(file, MOST_BYTES, f"{_GIVE_DUMP}, or a file of instructions")


def decode_file(file: Path, data: bytes, config: VtaConfig) -> list[Instruction]:
    """Decode the instructions in a file.

    Raises
    ------
    UsageError
        The file is truncated, or contains an invalid instruction for the configuration's revision; the
        message names the file, too.
    """
    try:
        return decode_program(data, config)
    except UsageError as error:
        raise UsageError(f"{printable(str(file))}: {error.message}", error.hint) from error


def _read_layout(file: Path) -> _Layout:
    text = _read(file, _LARGEST_LAYOUT)
    try:
        return _Layout.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        value = "" if first["type"] == "missing" else f": {shortened(repr(first['input']))}"
        raise _wrong(file, f"{shortened(where)}{value}: {first['msg']}" if where else first["msg"]) from error


def _of_size(file: Path, size: int, key: str) -> bytes:
    data = _read(file, MOST_BYTES)
    if len(data) != size:
        raise _wrong(file, f"it has {counted(len(data), 'byte')}, but {key} of {LAYOUT} means {size}")
    return data


def _read(file: Path, most: int, hint: str = _GIVE_DUMP) -> bytes:
    try:
        with open_plain(file) as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise UsageError(
            f"{printable(str(file))} cannot be read: {error.strerror or error}",
            hint,
        ) from error
    if len(data) > most:
        raise _wrong(file, f"it has more than {most} bytes")
    return data


def _wrong(file: Path, reason: str) -> UsageError:
    return UsageError(f"{printable(str(file))}: {reason}", _AGAIN)


# Runs a dump in the simulator and compares the memory with the expected one.


@dataclass(frozen=True)
class Difference:
    """The difference between the memory after a run and the expected one.

    Attributes
    ----------
    bytes, first
        Number of bytes that differ, and the offset of the first.
    got, expected
        Values of the first byte that differs.
    output
        Index of the output that contains this byte; None if it is in no output.
    """

    bytes: int
    first: int
    got: int
    expected: int
    output: int | None


@dataclass(frozen=True)
class Judged:
    """The result of running a dump.

    Attributes
    ----------
    passed
        Whether the memory equals the expected one; None if the dump has no expected memory.
    """

    outcome: Outcome
    passed: bool | None
    difference: Difference | None

    @property
    def model(self) -> CycleCounts | None:
        """Cycles by the cycle model; None if the program was refused."""
        return None if isinstance(self.outcome, Refused) else self.outcome.model

    def complaint(self, folder: str, *, strict: bool) -> tuple[str, str]:
        """Return what is wrong with a dump that did not pass `judge`, and what to type next."""
        if isinstance(self.outcome, Refused):
            return f"{folder}: {self.outcome.message} ({self.outcome.rule})", f"toolchain vta disasm {folder}"
        assert self.difference is not None  # noqa: S101
        wrong = self.difference
        where = "in no output" if wrong.output is None else f"in output {wrong.output}"
        return (
            f"{folder}: the memory differs from expected.bin in {counted(wrong.bytes, 'byte')}; the first is "
            f"byte {wrong.first}, {where}: {wrong.got} instead of {wrong.expected}",
            f"toolchain vta disasm {folder}" if strict else f"toolchain vta simulate {folder} --strict",
        )

    def document(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        ran = None if isinstance(self.outcome, Refused) else self.outcome
        return {
            "passed": self.passed,
            "refused": self.outcome.model_dump() if isinstance(self.outcome, Refused) else None,
            "difference": None if self.difference is None else vars(self.difference),
            "model": None if ran is None else {"ms": ran.milliseconds, **ran.model.model_dump()},
        }


def judge(
    dump: Dump,
    *,
    strict: bool = False,
    trace: bool = False,
    deadline_s: float = DEADLINE_S,
    progress: Callable[[str], None] | None = None,
) -> Judged:
    """Run a dump's program, and compare the memory with the expected one.

    Parameters
    ----------
    strict
        Whether to refuse programs that only some implementations of VTA run.
    trace
        Whether to record when each instruction begins and ends.
    progress
        Called with a line now and then while the simulator is compiled, which happens once.

    Raises
    ------
    ToolchainError
        The errors are those of `Simulator.run`.
    """
    program = EncodedProgram(dump.config, dump.program, dump.before, dump.phys_base)
    with Simulator(progress=progress) as simulator:
        outcome = simulator.run(program, SimOptions(strict=strict, timeline=trace), deadline_s)
    if isinstance(outcome, Refused):
        return Judged(outcome, False, None)
    if dump.after is None or outcome.memory is None:
        return Judged(outcome, None, None)
    got, expected = (np.frombuffer(data, np.uint8) for data in (outcome.memory, dump.after))
    wrong = np.flatnonzero(got != expected)
    if not len(wrong):
        return Judged(outcome, True, None)
    first = int(wrong[0])
    difference = Difference(
        len(wrong), first, int(got[first]), int(expected[first]), _output(dump.outputs, first)
    )
    return Judged(outcome, False, difference)


def _output(places: Sequence[Place], offset: int) -> int | None:
    for number, place in enumerate(places):
        if place.offset <= offset < place.offset + place.bytes:
            return number
    return None

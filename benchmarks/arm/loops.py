"""The hot loops of compiled Arm code: innermost loops that multiply and add vectors, read from the object."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arm.failure import ArmError, run

LLVM_VERSIONS = range(30, 13, -1)  # the newest that there is; 14 is Debian 12's own
_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*([^\n]*)$")
_BRANCH = re.compile(r"^(?:b(?:\.?[a-z]{2})?|cbn?z|tbn?z)(?:\.[nw])?$")
_TARGET = re.compile(r"(?:0x)?([0-9a-f]+) <")
# Vectors of four: fmla v0.4s … and vmla.f32 q0 …
_VECTOR_FMA = re.compile(r"^(?:fml[as]\s+v\d+\.4s|vml[as]\.f32\s+q|vfm[as]\.f32\s+q)")
_PRODUCT = re.compile(r"^(?:fmul\s+v\d+\.4s|vmul\.f32\s+q)")
_BY_LANE = re.compile(r"^(?:fml[as]|vml[as]\.f32)\s.*\[\d\]$")
_STORE = re.compile(r"^(?:v?st)")
_ACCESS = re.compile(r"^(?:v?ld|v?st|vpush|vpop|push|pop)")
_BASE = re.compile(r"\[(\w+)")
_FROM_STACK = re.compile(r"^(?:add|sub|mov)\S*\s+(\w+), (\w+)")
_REGISTER = re.compile(r"\b[xr]\d+\b|\blr\b")
# Arm, "Procedure Call Standard": for both architectures, what a call may overwrite.
_LOST_IN_CALLS = {*(f"x{number}" for number in range(19)), "r0", "r1", "r2", "r3", "r12", "lr"}
_COMMENT = re.compile(r"\s*(?://|@ ).*$")


@dataclass(frozen=True)
class Instruction:
    """One instruction; `stack` where it reads or writes the stack."""

    address: int
    text: str
    stack: bool = False

    @property
    def mnemonic(self) -> str:
        return self.text.split(maxsplit=1)[0]


@dataclass(frozen=True)
class HotLoop:
    """An innermost loop that multiplies vectors.

    Attributes
    ----------
    function
        Whose code it is.
    body
        Its instructions, those of loops within it left out.
    multiply_accumulates
        Instructions of four lanes each.
    vector_spills, scalar_spills
        Accesses to the stack.
    calls
        Of other functions.
    """

    function: str
    body: tuple[Instruction, ...]

    @property
    def start(self) -> int:
        return self.body[0].address

    @property
    def multiply_accumulates(self) -> int:
        return sum(bool(_VECTOR_FMA.match(i.text)) for i in self.body)

    @property
    def products(self) -> int:
        """Multiplications of four lanes, added up in the same instruction or not."""
        return self.multiply_accumulates + sum(bool(_PRODUCT.match(i.text)) for i in self.body)

    @property
    def by_lane(self) -> bool:
        """Whether it mostly multiplies vectors by one lane of another: a sum over channels, no transform."""
        return 2 * sum(bool(_BY_LANE.match(i.text)) for i in self.body) > self.products

    @property
    def vector_spills(self) -> int:
        return sum(i.stack and _is_vector(i.text) for i in self.body)

    @property
    def scalar_spills(self) -> int:
        return sum(i.stack and not _is_vector(i.text) for i in self.body)

    @property
    def calls(self) -> int:
        return sum(i.mnemonic in ("bl", "blr", "blx") for i in self.body)


def llvm(tool: str) -> str:
    """Return the newest of an LLVM tool that this machine has.

    Raises
    ------
    ArmError
        It has none.
    """
    for name in (*(f"{tool}-{version}" for version in LLVM_VERSIONS), tool):
        if found := shutil.which(name):
            return found
    raise ArmError(f"no {tool} on this machine: `tools/deps.sh counts` installs LLVM's tools")


def hot_loops(compiled: Path, least: int = 4) -> list[HotLoop]:
    """Return the hot loops of an object or library for Arm.

    Parameters
    ----------
    least
        Products of vectors that make a loop hot.
    """
    argv = [llvm("llvm-objdump"), "--disassemble", "--no-show-raw-insn", "--mattr=+neon", str(compiled)]
    return [
        loop for name, code in _functions(run(argv)) for loop in _loops(name, code) if loop.products >= least
    ]


def _functions(text: str) -> Iterator[tuple[str, list[Instruction]]]:
    code: list[Instruction] = []
    name, pointers = "", {"sp"}
    for line in text.splitlines():
        if function := _FUNCTION.match(line):
            if code:
                yield name, code
            name, code, pointers = function[2], [], {"sp"}
        elif found := _INSTRUCTION.match(line):
            words = _COMMENT.sub("", f"{found[2]} {found[3]}").strip()
            code.append(Instruction(int(found[1], 16), words, _on_stack(words, pointers)))
            _follow(words, pointers)
    if code:
        yield name, code


def _on_stack(words: str, pointers: set[str]) -> bool:
    if not _ACCESS.match(words):
        return False
    base = _BASE.search(words)
    register = base[1] if base else words.split(maxsplit=1)[-1].split(",")[0].rstrip("!")  # vldmia r0, {…}
    return register in pointers or words.startswith(("push", "pop", "vpush", "vpop"))


def _follow(words: str, pointers: set[str]) -> None:
    """Keep the registers that hold addresses of the stack, in the order of the text."""
    moved = _FROM_STACK.match(words)
    if moved and moved[2] in pointers:
        pointers.add(moved[1])
    elif words.startswith("bl"):
        pointers -= _LOST_IN_CALLS
    elif not _STORE.match(words):
        operands = words.partition(" ")[2].split("[")[0]  # all registers that a load writes
        written = operands if _ACCESS.match(words) else operands.split(",")[0]
        pointers -= set(_REGISTER.findall(written)) - {"sp"}


def _loops(name: str, code: Sequence[Instruction]) -> Iterator[HotLoop]:
    index = {instruction.address: at for at, instruction in enumerate(code)}
    ends: dict[int, int] = {}
    for at, instruction in enumerate(code):
        target = _TARGET.search(instruction.text)
        if target and _BRANCH.match(instruction.mnemonic):
            start = index.get(int(target[1], 16), at + 1)
            if start <= at:
                ends[start] = at
    for start, end in ends.items():
        within = [(s, e) for s, e in ends.items() if (s, e) != (start, end) and start <= s and e <= end]
        body = [code[at] for at in range(start, end + 1) if not any(s <= at <= e for s, e in within)]
        yield HotLoop(name, tuple(body))


def _is_vector(text: str) -> bool:
    return bool(re.match(r"^\S+\s+(?:\{|[qd]\d|[^,]*, \{)", text))

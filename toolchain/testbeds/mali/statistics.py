"""Statistics of a kernel compiled by Mesa for Midgard: registers, spills, and words per pipe and block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from toolchain.errors import ToolchainError

ITEMS_BY_THREADS = 64
"""Resident work items of a core per "thread" that Mesa reports: 4, 2 or 1 for up to 4, 8 or 16 registers."""

_BLOCK = re.compile(r"(?ms)^block(\d+): \{\n(.*?)^\}(?: -> ([^\n]*?))? from \{")
_ARITHMETIC = re.compile(r"(vmul|sadd|vadd|smul|lut|br|brx)\.")
_MULTIPLY = re.compile(r"\w+\.FMUL\S* \S+?\.f\d+\.(\w+)")
_LISTING = "block0: {"
_COUNTS = re.compile(
    r"SHADER-DB:.*?(\d+) inst, (\d+) bundles, (\d+) quadwords, (\d+) registers, (\d+) threads, "
    r"(\d+) loops, (\d+):(\d+) spills:fills"
)
_NO_REGISTERS = ("Failed to choose spill node", "Gave up allocating registers")


@dataclass(frozen=True)
class Block:
    """A basic block: code without branches.

    Attributes
    ----------
    arithmetic, load_store, texture
        Instruction words for each pipe; barriers count for the texture pipe.
    multiplies
        Floating-point multiplications, counted per lane.
    """

    arithmetic: int = 0
    load_store: int = 0
    texture: int = 0
    multiplies: int = 0


@dataclass(frozen=True)
class KernelStatistics:
    """Statistics of a kernel's Midgard code.

    Attributes
    ----------
    registers
        Number of work registers, of 16 bytes each.
    instructions, bundles, quadwords
        Size of the whole kernel; a bundle is an instruction word, a quadword 16 bytes of code.
    spills, fills
        Number of instructions that spill a register to memory or load it back.
    resident
        Occupancy: how many work items a core holds at a time.
    blocks
        The basic blocks in the order of the code.
    loops
        Indices of the first and last block of each loop, outer loops first.
    """

    registers: int
    instructions: int
    bundles: int
    quadwords: int
    spills: int
    fills: int
    resident: int
    blocks: tuple[Block, ...]
    loops: tuple[tuple[int, int], ...]

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Self:
        """Return the object whose `dataclasses.asdict` gave this document.

        Raises
        ------
        ValueError, TypeError, KeyError
            The document has another form.
        """
        blocks, loops = document.pop("blocks"), document.pop("loops")
        if not isinstance(blocks, list) or not isinstance(loops, list):
            raise TypeError("blocks and loops are lists")
        counts = {name: int(value) for name, value in document.items() if isinstance(value, int)}
        return cls(
            **counts,
            blocks=tuple(Block(**block) for block in blocks),
            loops=tuple((int(first), int(last)) for first, last in loops),
        )


def read_statistics(printed: str) -> KernelStatistics:
    """Parse the compiler's output for one kernel.

    Parameters
    ----------
    printed
        Mesa's output with `MIDGARD_MESA_DEBUG=shaderdb,shaders`.

    Raises
    ------
    ToolchainError
        The kernel needs too many registers, or the text is not such output.
    """
    if any(lost in printed for lost in _NO_REGISTERS):
        raise ToolchainError(
            "the registers do not suffice, not even with spills",
            "a smaller tile, or a work group of 64 items or fewer",
        )
    counted = _COUNTS.findall(printed)
    at = printed.rfind(_LISTING)
    if not counted or at < 0:
        raise ToolchainError("the compiler's output has no statistics of a Midgard kernel")
    instructions, bundles, quadwords, registers, threads, _loops, spills, fills = map(int, counted[-1])
    blocks, loops = _read_blocks(printed[at:])
    return KernelStatistics(
        registers, instructions, bundles, quadwords, spills, fills, threads * ITEMS_BY_THREADS, blocks, loops
    )


def _read_blocks(listing: str) -> tuple[tuple[Block, ...], tuple[tuple[int, int], ...]]:
    """Return the blocks in order, and the loops: a backward branch goes from a loop's end to its start."""
    listed = [(int(number), text, next_ or "") for number, text, next_ in _BLOCK.findall(listing)]
    place = {number: index for index, (number, _text, _next) in enumerate(listed)}
    ends: dict[int, int] = {}
    for index, (_number, _text, following) in enumerate(listed):
        for target in map(int, re.findall(r"block(\d+)", following)):
            first = place.get(target, index + 1)
            if first <= index:
                ends[first] = max(ends.get(first, 0), index)
    return tuple(_block(text) for _number, text, _next in listed), tuple(sorted(ends.items()))


def _block(text: str) -> Block:
    words = [
        [line.strip() for line in word.splitlines() if line.strip()]
        for word in re.split(r"\n\s*\n", text)
        if word.strip()
    ]
    texture = sum(word[0].startswith("TEX") for word in words)
    arithmetic = sum(bool(_ARITHMETIC.match(word[0])) for word in words)
    lanes = [match[1] for word in words for line in word if (match := _MULTIPLY.match(line))]
    return Block(arithmetic, len(words) - texture - arithmetic, texture, sum(map(len, lanes)))

"""What Mesa's Midgard compiler made of a kernel: registers, spills, and words by pipe in every block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from toolchain.errors import ToolchainError

ITEMS_BY_THREADS = 64
"""Work items of a core for each "thread" that Mesa reports: 4, 2 or 1, for up to 4, 8 or 16 registers."""

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
    """A stretch of code without branches.

    Attributes
    ----------
    arithmetic, load_store, texture
        Instruction words of each pipe; barriers are the texture pipe's.
    multiplies
        Multiplications of numbers with a point, lane by lane.
    """

    arithmetic: int = 0
    load_store: int = 0
    texture: int = 0
    multiplies: int = 0


@dataclass(frozen=True)
class Compiled:
    """A kernel in Midgard's code, its loops as the source has them.

    Attributes
    ----------
    registers
        Work registers, of 16 bytes each.
    instructions, bundles, quadwords
        Of the whole kernel; a bundle is an instruction word, a quadword 16 bytes of code.
    spills, fills
        Registers that are written to memory for want of room, and read again; places in the code.
    resident
        Work items that a core has room for at a time.
    blocks
        In the order of the code.
    loops
        First and last block of each loop, outer loops first.
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
        """Return what `dataclasses.asdict` made a document of.

        Raises
        ------
        ValueError, TypeError, KeyError
            It is none.
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


def read_compiled(printed: str) -> Compiled:
    """Return what the compiler said of one kernel.

    Parameters
    ----------
    printed
        What Mesa prints with `MIDGARD_MESA_DEBUG=shaderdb,shaders`.

    Raises
    ------
    ToolchainError
        The registers do not suffice, or this is no such text.
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
    return Compiled(
        registers, instructions, bundles, quadwords, spills, fills, threads * ITEMS_BY_THREADS, blocks, loops
    )


def _read_blocks(listing: str) -> tuple[tuple[Block, ...], tuple[tuple[int, int], ...]]:
    """Return blocks in their order, and loops: a branch backwards ends one at its target."""
    found = [(int(number), text, next_ or "") for number, text, next_ in _BLOCK.findall(listing)]
    place = {number: index for index, (number, _text, _next) in enumerate(found)}
    ends: dict[int, int] = {}
    for index, (_number, _text, following) in enumerate(found):
        for target in map(int, re.findall(r"block(\d+)", following)):
            first = place.get(target, index + 1)
            if first <= index:
                ends[first] = max(ends.get(first, 0), index)
    return tuple(_block(text) for _number, text, _next in found), tuple(sorted(ends.items()))


def _block(text: str) -> Block:
    words = [
        [line.strip() for line in word.splitlines() if line.strip()]
        for word in re.split(r"\n\s*\n", text)
        if word.strip()
    ]
    texture = sum(word[0].startswith("TEX") for word in words)
    arithmetic = sum(bool(_ARITHMETIC.match(word[0])) for word in words)
    lanes = [found[1] for word in words for line in word if (found := _MULTIPLY.match(line))]
    return Block(arithmetic, len(words) - texture - arithmetic, texture, sum(map(len, lanes)))

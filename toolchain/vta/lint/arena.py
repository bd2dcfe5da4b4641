"""The memory of a program in DRAM, and the parts of it that instructions access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolchain.vta.design.config import MOST_BYTES, PAGE_BYTES, Sram, VtaConfig
from toolchain.vta.isa.instructions import Load, Store
from toolchain.vta.lint.problem import Finder


@dataclass(frozen=True)
class Arena:
    """The memory before a program runs, from a physical address on."""

    data: npt.NDArray[np.uint8]
    base: int
    config: VtaConfig

    def check(self, finder: Finder, program_bytes: int) -> None:
        """Add the rules that the memory breaks because no driver could allocate it."""
        if self.base % PAGE_BYTES:
            finder.add("arena", None, f"the memory begins at {self.base:#x}, which begins no page")
        for what, size in (("the memory has", self.data.size), ("the instructions have", program_bytes)):
            if size > MOST_BYTES:
                finder.add("arena", None, f"{what} {size} bytes; a driver gives {MOST_BYTES} at most")

    def rows(self, moved: Load | Store) -> Iterator[tuple[int, int]]:
        """Yield the offsets of each row's begin and end in the memory, in bytes."""
        element = self.config.buffers[moved.memory].element_bytes
        for y in range(moved.y_size):
            begin = (moved.dram_base + y * moved.x_stride) * element - self.base
            yield begin, begin + moved.x_size * element

    @property
    def pieces(self) -> int:
        """Number of pieces of the memory; a piece has the size of OUT's elements, which only STORE writes."""
        return self.data.size // self.piece + 1

    @property
    def piece(self) -> int:
        """Size of a piece in bytes."""
        return self.config.buffers[Sram.OUT].element_bytes

    def pieces_of(self, moved: Load | Store) -> npt.NDArray[np.int64]:
        """Return the indices of the pieces that an instruction moves, which must be inside the memory."""
        element = self.config.buffers[moved.memory].element_bytes
        rows = (moved.dram_base + np.arange(moved.y_size) * moved.x_stride) * element - self.base
        last = (rows + moved.x_size * element - 1) // self.piece
        rows //= self.piece
        pieces = rows[:, None] + np.arange((last - rows).max() + 1)
        return np.minimum(pieces, last[:, None]).reshape(-1)

    def holds(self, finder: Finder, index: int, moved: Load | Store) -> bool:
        """Return whether everything that an instruction moves is inside the memory; add a problem if not."""
        element = self.config.buffers[moved.memory].element_bytes
        begin = moved.dram_base * element
        end = begin + ((moved.y_size - 1) * moved.x_stride + moved.x_size) * element
        if begin >= self.base and end <= self.base + self.data.size:
            return True
        whole = f"{self.base:#x} to {self.base + self.data.size:#x}"
        finder.add("bounds", index, f"it moves bytes {begin:#x} to {end:#x}, and the memory is {whole}")
        return False

"""A part of a library: the compiled form of one function."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from toolchain.lowering.dialects.source import NO_KERNELS, KernelSource, KernelUnit, MachineCode

_ELF = b"\x7fELF"
_END = b"\n"  # ends the text about kernels, which contains no line break


@dataclass(frozen=True)
class LibraryPart:
    """An object for the linker, and the kernels that its code launches.

    Attributes
    ----------
    object
        An ELF file for the host's CPU.
    """

    object: bytes
    unit: KernelUnit = NO_KERNELS

    def to_bytes(self) -> bytes:
        """Serialise the part; without kernels the bytes are the object itself."""
        if not self.unit.kernels:
            return self.object
        codes = self.unit.codes
        text = {
            "kernels": [asdict(kernel) for kernel in self.unit.kernels],
            "codes": [(each.architecture, each.compiler, len(each.code)) for each in codes],
        }
        return json.dumps(text).encode() + _END + b"".join(each.code for each in codes) + self.object

    @staticmethod
    def of(data: bytes) -> LibraryPart:
        """Parse the bytes that `to_bytes` returned."""
        if data.startswith(_ELF):
            return LibraryPart(data)
        line, _end, rest = data.partition(_END)
        text = json.loads(line)
        kernels = tuple(
            KernelSource(each["name"], tuple(each["types"]), tuple(each["extents"]), each["source"])
            for each in text["kernels"]
        )
        codes = tuple(_codes(text["codes"], rest))
        return LibraryPart(rest[sum(len(each.code) for each in codes) :], KernelUnit(kernels, codes))


def _codes(entries: list[tuple[int, int, int]], data: bytes) -> Iterator[MachineCode]:
    start = 0
    for architecture, compiler, size in entries:
        yield MachineCode(architecture, compiler, data[start : start + size])
        start += size

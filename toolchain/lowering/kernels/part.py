"""A part of a library: the compiled form of one function."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.lowering.kernels.device import KernelSource, from_text, to_text

_ELF = b"\x7fELF"
_END = b"\n"  # ends the kernels' text, which contains no line break


@dataclass(frozen=True)
class LibraryPart:
    """An object for the linker, and the kernels that its code launches.

    Attributes
    ----------
    object
        An ELF file for the host's CPU.
    """

    object: bytes
    kernels: tuple[KernelSource, ...] = ()

    def to_bytes(self) -> bytes:
        """Serialise the part; without kernels the bytes are the object itself."""
        return to_text(self.kernels).encode() + _END + self.object if self.kernels else self.object

    @staticmethod
    def of(data: bytes) -> LibraryPart:
        """Parse the bytes that `to_bytes` returned."""
        if data.startswith(_ELF):
            return LibraryPart(data)
        kernels, _end, found = data.partition(_END)
        return LibraryPart(found, from_text(kernels.decode()))

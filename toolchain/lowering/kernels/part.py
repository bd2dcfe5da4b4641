"""What one function becomes: a part of a library."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.lowering.kernels.device import Kernel, from_text, to_text

_ELF = b"\x7fELF"
_END = b"\n"  # of the kernels' text, which has none


@dataclass(frozen=True)
class Part:
    """An object for the linker, and the kernels that its code begins on a device.

    Attributes
    ----------
    object
        An ELF file for the host's CPU.
    """

    object: bytes
    kernels: tuple[Kernel, ...] = ()

    def to_bytes(self) -> bytes:
        """Return it as bytes: the object itself where there are no kernels."""
        return to_text(self.kernels).encode() + _END + self.object if self.kernels else self.object

    @staticmethod
    def of(data: bytes) -> Part:
        """Return what `to_bytes` made bytes of."""
        if data.startswith(_ELF):
            return Part(data)
        kernels, _end, found = data.partition(_END)
        return Part(found, from_text(kernels.decode()))

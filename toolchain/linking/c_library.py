"""The board's C library, as far as kernels call it: glibc of some version, or Android's."""

from __future__ import annotations

from toolchain.architectures.architecture import Architecture
from toolchain.linking import bionic, glibc

# Library -> symbol -> version, None where the library has none.
CLibrary = dict[str, dict[str, str | None]]


def c_library(arch: Architecture, floor: str | None) -> CLibrary:
    """Return what the oldest C library of a board class offers, and under which versions.

    Parameters
    ----------
    floor
        The oldest glibc that must load a library, such as `2.27`; not used for Android.
    """
    if arch.glibc_base is None or floor is None:
        return {library: dict.fromkeys(names) for library, names in bionic.SYMBOLS.items()}
    found: CLibrary = {}
    for library in glibc.SYMBOLS:
        found[library] = dict(glibc.versions_for(library, arch.glibc_base, floor))
    return found

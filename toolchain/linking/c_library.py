"""The part of the board's C library that kernels call: of glibc or Android's bionic."""

from __future__ import annotations

from toolchain.architectures.architecture import Architecture
from toolchain.linking import glibc

# Library -> symbol -> version, None for a library without symbol versions.
CLibrary = dict[str, dict[str, str | None]]

LIBM, LIBC = "libm.so", "libc.so"  # Android's

# GNU extensions, and functions newer than the first 64-bit Android, API level 21
# (bionic, `libm/libm.map.txt`).
_LACKING = frozenset({"exp10", "exp10f", "roundeven", "roundevenf"})
_IN_LIBC = frozenset({"ldexp"})  # bionic, `libc/libc.map.txt`

_ANDROID: dict[str, tuple[str, ...]] = {
    LIBM: tuple(name for name in glibc.SYMBOLS[glibc.LIBM] if name not in _LACKING | _IN_LIBC),
    LIBC: (*glibc.SYMBOLS[glibc.LIBC], *sorted(_IN_LIBC)),
}


def c_library(arch: Architecture, floor: str | None) -> CLibrary:
    """Return the symbols of the oldest C library of a board class, with their versions.

    Parameters
    ----------
    floor
        The oldest glibc that must load a library, such as `2.27`; ignored for Android.
    """
    if arch.glibc_base is None or floor is None:
        return {library: dict.fromkeys(names) for library, names in _ANDROID.items()}
    found: CLibrary = {}
    for library in glibc.SYMBOLS:
        found[library] = dict(glibc.versions_for(library, arch.glibc_base, floor))
    return found

"""The symbols of Android's C library that kernels may call."""

from __future__ import annotations

from toolchain.linking import glibc

LIBM = "libm.so"
LIBC = "libc.so"

# GNU's inventions, and functions that came after the first 64-bit Android, API level 21
# (bionic, `libm/libm.map.txt`).
_LACKING = frozenset({"exp10", "exp10f", "roundeven", "roundevenf"})
_IN_LIBC = frozenset({"ldexp"})  # bionic, `libc/libc.map.txt`

SYMBOLS: dict[str, tuple[str, ...]] = {
    LIBM: tuple(name for name in glibc.SYMBOLS[glibc.LIBM] if name not in _LACKING | _IN_LIBC),
    LIBC: (*glibc.SYMBOLS[glibc.LIBC], *sorted(_IN_LIBC)),
}

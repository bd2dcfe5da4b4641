"""The glibc symbols that kernels may call, and their version nodes."""

from __future__ import annotations

LIBM = "libm.so.6"
LIBC = "libc.so.6"

# LLVM's intrinsics and TVM's lowering of math operators call these; each also as float (`expf`).
_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh"),
    *("erf", "erfc", "exp", "exp2", "exp10", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod"),
    *("frexp", "hypot", "ldexp", "lgamma", "llrint", "llround", "log", "log10", "log1p", "log2", "logb"),
    *("lrint", "lround", "modf", "nearbyint", "nextafter", "pow", "remainder", "rint", "round", "roundeven"),
    *("scalbn", "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc"),
)

SYMBOLS: dict[str, tuple[str, ...]] = {
    LIBM: (*_MATH, *(f"{name}f" for name in _MATH)),
    LIBC: ("memchr", "memcmp", "memcpy", "memmove", "memset"),
}

# Symbols that got a new version after the architecture's first glibc
# (glibc, `math/Versions` and `string/Versions`; a test compares with real C libraries).
# A node older than the architecture's first glibc means that first glibc.
_NEWER = {
    **dict.fromkeys(("expf", "exp2f", "logf", "log2f", "powf"), "2.27"),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "pow"), "2.29"),
    **dict.fromkeys(("lgamma", "lgammaf"), "2.23"),
    **dict.fromkeys(("hypot", "hypotf"), "2.35"),
    **dict.fromkeys(("fmod", "fmodf"), "2.38"),
    "exp10f": "2.32",
    "exp10": "2.39",
}
# New versions on one architecture only, identified by its first glibc: 2.2.5 is x86-64.
_NEWER_THERE = {"2.2.5": {"memcpy": "2.14"}}
# Symbols that are missing from older versions of glibc.
_SINCE = {"roundeven": "2.25", "roundevenf": "2.25"}


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key for versions, so that `2.2.5 < 2.17`."""
    return tuple(int(part) for part in version.split("."))


def versions_for(library: str, base: str, floor: str) -> dict[str, str]:
    """Return symbol -> version for `library`: the newest node that glibc `floor` offers.

    Parameters
    ----------
    library
        `LIBM` or `LIBC`.
    base
        Version of the architecture's first glibc.
    floor
        The oldest glibc that must load the result; symbols missing from it are left out.
    """
    oldest, newest = version_key(base), version_key(floor)
    newer = {**_NEWER, **_NEWER_THERE.get(base, {})}
    found = {}
    for name in SYMBOLS[library]:
        versions = [_SINCE[name]] if name in _SINCE else [base, *([newer[name]] if name in newer else [])]
        usable = [v for v in versions if version_key(v) <= newest]
        if usable:
            best = usable[-1]
            found[name] = best if version_key(best) > oldest else base
    return found

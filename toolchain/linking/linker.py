"""The interface of linkers, and the flags that all of them use."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from toolchain.architectures.architecture import Architecture
from toolchain.configuration import settings as config
from toolchain.errors import ToolchainError
from toolchain.files import atomic
from toolchain.linking.symbols import RUNTIME_PREFIXES, object_symbols
from toolchain.linking.zig import Ended, run_zig, zig_cache_environment
from toolchain.profiles import Profile

# Functions of the Arm run-time ABI, which are linked into libraries whose kernels call them.
#
# zig's compiler_rt has them too, but in one object with its own memcpy and expf, which would replace the
# board's (see `native/aeabi.cc`).

SOURCE = Path(__file__).parent.parent / "native" / "aeabi.cc"
# The core of the Zynq, our oldest: later cores run its code too.
_HELPERS_FLAGS = (
    "-mcpu=cortex_a9",
    "-std=c++20",
    "-O2",
    "-fPIC",
    "-ffreestanding",
    "-fno-sanitize=all",
    "-g0",
)
_HELPERS_DEADLINE_S = 120.0  # usually takes 0.2 s; a cold disk must read zig (180 MB) first


def ensure_helpers(arch: Architecture, objects: Sequence[Path]) -> tuple[Path, ...]:
    """Return the object with the helpers if `objects` call one, else nothing; it is compiled once and cached.

    Raises
    ------
    ToolchainError
        The helpers could not be compiled, or an object cannot be read.
    """
    if not arch.helpers:
        return ()
    helpers = _compile(arch)
    called = object_symbols([helpers]).defined & object_symbols(objects).undefined
    return (helpers,) if called else ()


def _compile(arch: Architecture) -> Path:
    key = hashlib.sha256(SOURCE.read_bytes() + repr(_HELPERS_FLAGS).encode()).hexdigest()[:16]
    folder = config.cache_dir() / "stubs" / f"{arch.zig_target}-helpers-{key}"
    if not folder.is_dir():
        with atomic.replacing_folder(folder) as temporary:
            object_file = str(temporary / "aeabi.o")
            arguments = [
                "c++",
                "-target",
                arch.zig_target,
                *_HELPERS_FLAGS,
                "-c",
                str(SOURCE),
                "-o",
                object_file,
            ]
            done = run_zig(arguments, _HELPERS_DEADLINE_S, zig_cache_environment())
            if done.returncode != 0:
                raise ToolchainError(
                    f"cannot compile {SOURCE} for {arch.zig_target}: {done.last_lines()}",
                    "toolchain cache prune, then run the same command again",
                )
    return folder / "aeabi.o"


# The glibc symbols that kernels may call, and their version nodes.

GLIBC_LIBM = "libm.so.6"
GLIBC_LIBC = "libc.so.6"

# LLVM's intrinsics and TVM's lowering of math operators call these; each also as float (`expf`).
_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh"),
    *("erf", "erfc", "exp", "exp2", "exp10", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod"),
    *("frexp", "hypot", "ldexp", "lgamma", "llrint", "llround", "log", "log10", "log1p", "log2", "logb"),
    *("lrint", "lround", "modf", "nearbyint", "nextafter", "pow", "remainder", "rint", "round", "roundeven"),
    *("scalbn", "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc"),
)

SYMBOLS: dict[str, tuple[str, ...]] = {
    GLIBC_LIBM: (*_MATH, *(f"{name}f" for name in _MATH)),
    GLIBC_LIBC: ("memchr", "memcmp", "memcpy", "memmove", "memset"),
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
        `GLIBC_LIBM` or `GLIBC_LIBC`.
    base
        Version of the architecture's first glibc.
    floor
        The oldest glibc that must load the result; symbols missing from it are left out.
    """
    oldest, newest = version_key(base), version_key(floor)
    newer = {**_NEWER, **_NEWER_THERE.get(base, {})}
    symbol_versions = {}
    for name in SYMBOLS[library]:
        versions = [_SINCE[name]] if name in _SINCE else [base, *([newer[name]] if name in newer else [])]
        usable = [v for v in versions if version_key(v) <= newest]
        if usable:
            best = usable[-1]
            symbol_versions[name] = best if version_key(best) > oldest else base
    return symbol_versions


# The part of the board's C library that kernels call: of glibc or Android's bionic.

# Library -> symbol -> version, None for a library without symbol versions.
CLibrary = dict[str, dict[str, str | None]]

BIONIC_LIBM, BIONIC_LIBC = "libm.so", "libc.so"  # of Android

# GNU extensions, and functions newer than the first 64-bit Android, API level 21
# (bionic, `libm/libm.map.txt`).
_LACKING = frozenset({"exp10", "exp10f", "roundeven", "roundevenf"})
_IN_LIBC = frozenset({"ldexp"})  # bionic, `libc/libc.map.txt`

_ANDROID: dict[str, tuple[str, ...]] = {
    BIONIC_LIBM: tuple(name for name in SYMBOLS[GLIBC_LIBM] if name not in _LACKING | _IN_LIBC),
    BIONIC_LIBC: (*SYMBOLS[GLIBC_LIBC], *sorted(_IN_LIBC)),
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
    symbols: CLibrary = {}
    for library in SYMBOLS:
        symbols[library] = dict(versions_for(library, arch.glibc_base, floor))
    return symbols


DEADLINE_S = 120.0  # 0.02 s is usual; libraries with 100 MB of constants on a busy disk take seconds


# `-z now`: a symbol missing on the board is an error when the library is loaded, not during inference.
_FLAGS = (
    *("-shared", "-s", "--as-needed", "--build-id=none", "--hash-style=gnu", "--eh-frame-hdr"),
    "--gc-sections",  # every object has its own copy of some functions, one copy is enough
    *("-z", "now", "-z", "relro", "-z", "noexecstack"),
)


class Linker(Protocol):
    """Links objects into a library."""

    def check(self, profile: Profile) -> None:
        """Raise an error if this linker cannot link for boards of `profile`; called before compiling.

        Raises
        ------
        UsageError
            The linker does not support such boards.
        MissingError
            The linker is not installed.
        """

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        ToolchainError
            The linker failed; the message has its output.
        """


def flags_for(profile: Profile, objects: Sequence[Path]) -> tuple[str, ...]:
    """Return the flags of ld or lld for boards of `profile`.

    Linux libraries get no SONAME: it would be the file's name, and the library's bytes must not depend on it.
    Android's loader needs a unique SONAME, which is made from the objects' digest. Android before API level
    23 supports only the older hash tables (bionic, `android-changes-for-ndk-developers.md`). Its loader makes
    whole pages read-only, so those must hold no writable data (bionic, `linker/linker_phdr.cpp`).
    """
    arch = profile.architecture
    flags = (*_FLAGS, "-z", f"max-page-size={arch.page}")
    if not arch.android:
        return flags
    digest = hashlib.sha256()
    for path in objects:
        digest.update(path.read_bytes())
    naming = ("-soname", f"{digest.hexdigest()[:16]}.so")
    return (*flags, "-z", f"common-page-size={arch.page}", "--hash-style=both", *naming)


def check_undefined(objects: Sequence[Path], profile: Profile) -> None:
    """Raise an error if objects need symbols that boards of `profile` lack.

    Raises
    ------
    ToolchainError
        The message lists those symbols.
    """
    arch = profile.architecture
    offered = {name for symbols in c_library(arch, profile.glibc).values() for name in symbols}
    undefined = object_symbols([*objects, *ensure_helpers(arch, objects)]).undefined - offered
    lacking = sorted(name for name in undefined if not name.startswith(RUNTIME_PREFIXES))
    if lacking:
        library = f"glibc {profile.glibc}" if profile.glibc else "the C library"
        raise ToolchainError(
            f"undefined symbols in {', '.join(map(str, objects))}: {', '.join(lacking)}; neither {library} "
            f"of board class {profile.name} nor the runtime offers them",
            "find the operator that needs them with `toolchain tasks MODEL --show ID`",
        )


def report(out: Path, ended: Ended) -> None:
    """Turn a linker's failure into an error.

    Raises
    ------
    ToolchainError
        The linker failed; the message has its last lines.
    """
    if ended.returncode != 0:
        raise ToolchainError(f"cannot link {out}:\n{ended.last_lines()}", "build the objects again")

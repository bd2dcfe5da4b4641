"""The linkers by name."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from toolchain.architectures.architecture import Architecture
from toolchain.errors import MissingError, UsageError
from toolchain.linking.linker import DEADLINE_S, Linker, check_undefined, ensure_helpers, flags_for, report
from toolchain.linking.lld import ZigLinker, ensure_stubs
from toolchain.linking.zig import run
from toolchain.profiles import Profile

# Linking through a compiler driver: gcc, or the clang of an NDK.


def link_by(program: str, objects: Sequence[Path], out: Path, profile: Profile) -> None:
    """Link with `-nostdlib` against our stub libraries, without the driver's start-up code and C library.

    Parameters
    ----------
    program
        The driver, which must understand `-Xlinker`.

    Raises
    ------
    ToolchainError
        The linker failed; the message has its output.
    """
    arch = profile.architecture
    check_undefined(objects, profile)
    passed = [part for flag in flags_for(profile, objects)[1:] for part in ("-Xlinker", flag)]
    stubs = ensure_stubs(arch, profile.glibc)
    files = map(str, (out, *objects, *ensure_helpers(arch, objects), *stubs))
    report(out, run([program, "-nostdlib", "-shared", *passed, "-o", *files], DEADLINE_S))


# GNU ld through gcc, for users who want the linker of their distribution.


def gcc_program(arch: Architecture) -> str:
    """Return the gcc on this host that links for an architecture.

    Raises
    ------
    MissingError
        None is on the PATH.
    """
    native = arch.uname == platform.machine()
    candidates = (arch.gcc, *(("gcc", "cc") if native else ()))
    for candidate in candidates:
        program: str | None = shutil.which(candidate)
        if program:
            return program
    package = "gcc" if native else f"gcc-{arch.gcc.removesuffix('-gcc').replace('_', '-')}"
    raise MissingError(
        f"--linker gcc needs {' or '.join(candidates)} for {arch.name}, which is not on the PATH",
        f"apt-get install {package}, or use --linker zig",
    )


class GccLinker:
    """Links by `gcc -nostdlib -shared` against our stubs, without start-up code and the host's glibc."""

    def check(self, profile: Profile) -> None:
        """Raise an error if this host has no gcc for the architecture."""
        gcc_program(profile.architecture)

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        ToolchainError
            The linker failed; the message has its output.
        MissingError
            This host has no gcc for that architecture.
        """
        link_by(gcc_program(profile.architecture), objects, out, profile)


# lld through the clang of an Android NDK, for users whose libraries must come from Google's linker.

VARIABLE = "TVM_NDK_CC"  # TVM's own name for it (tvm.contrib.ndk)
_EXAMPLE = "NDK/toolchains/llvm/prebuilt/linux-x86_64/bin/aarch64-linux-android21-clang++"


def ndk_program() -> str:
    """Return the NDK's compiler that TVM_NDK_CC names.

    Raises
    ------
    MissingError
        The variable is not set.
    UsageError
        It does not name a program that can be run.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        raise MissingError(
            f"--linker ndk: {VARIABLE} is not set", f"export {VARIABLE}={_EXAMPLE}, or use --linker zig"
        )
    program = shutil.which(named)
    if program is None:
        raise UsageError(
            f"--linker ndk: {VARIABLE}={named} is not a program that can be run",
            f"set {VARIABLE} to the NDK's compiler, such as {_EXAMPLE}, or use --linker zig",
        )
    return program


class NdkLinker:
    """Links by the NDK's clang with `-nostdlib -shared` against our stubs, since the NDK's have versions."""

    def check(self, profile: Profile) -> None:
        """Raise an error for boards without Android, or if no NDK is configured."""
        if not profile.android:
            raise UsageError(
                f"--linker ndk: it links for Android, but board class {profile.name} is {profile.triple}",
                "use --linker zig",
            )
        ndk_program()

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        UsageError
            The boards do not run Android, or TVM_NDK_CC does not name a program that can be run.
        MissingError
            TVM_NDK_CC is not set.
        ToolchainError
            The linker failed; the message has its output.
        """
        self.check(profile)
        link_by(ndk_program(), objects, out, profile)


_LINKERS: dict[str, type[Linker]] = {"zig": ZigLinker, "gcc": GccLinker, "ndk": NdkLinker}


def linker_named(name: str) -> Linker:
    """Return the linker that `--linker NAME` means.

    Raises
    ------
    UsageError
        There is no linker of that name.
    """
    if name not in _LINKERS:
        raise UsageError(
            f"--linker {name}: there is no such linker", f"the linkers are: {', '.join(_LINKERS)}"
        )
    return _LINKERS[name]()

"""GNU ld behind gcc, for those who want the linker of their distribution."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from toolchain.architectures.architecture import Architecture
from toolchain.errors import MissingError
from toolchain.linking.driver import link_by
from toolchain.profiles import Profile


def gcc_program(arch: Architecture) -> str:
    """Return the compiler that links for an architecture on this host.

    Raises
    ------
    MissingError
        There is none on the PATH.
    """
    candidates = (arch.gcc, *(("gcc", "cc") if arch.uname == platform.machine() else ()))
    for candidate in candidates:
        found: str | None = shutil.which(candidate)
        if found:
            return found
    raise MissingError(
        f"--linker gcc needs {' or '.join(candidates)} for {arch.name}, which is not on the PATH",
        f"apt-get install gcc-{arch.gcc.removesuffix('-gcc').replace('_', '-')}, or use --linker zig",
    )


class GccLinker:
    """`gcc -nostdlib -shared` with our stub libraries: no start-up code, no host's glibc."""

    def check(self, profile: Profile) -> None:
        """Refuse to link where there is no gcc for the architecture."""
        gcc_program(profile.architecture)

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        ToolchainError
            They cannot be linked; says why, in the linker's own words.
        MissingError
            There is no gcc for that architecture.
        """
        link_by(gcc_program(profile.architecture), objects, out, profile)

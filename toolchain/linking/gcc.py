"""GNU ld through gcc, for users who want the linker of their distribution."""

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
    """Return the gcc on this host that links for an architecture.

    Raises
    ------
    MissingError
        None is on the PATH.
    """
    own = arch.uname == platform.machine()
    candidates = (arch.gcc, *(("gcc", "cc") if own else ()))
    for candidate in candidates:
        found: str | None = shutil.which(candidate)
        if found:
            return found
    package = "gcc" if own else f"gcc-{arch.gcc.removesuffix('-gcc').replace('_', '-')}"
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

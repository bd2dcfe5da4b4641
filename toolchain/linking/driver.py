"""Linking through a compiler driver: gcc, or the clang of an NDK."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolchain.linking.helpers import ensure_helpers
from toolchain.linking.linker import DEADLINE_S, check_wanted, flags_for, report
from toolchain.linking.process import run
from toolchain.linking.stubs import ensure_stubs
from toolchain.profiles import Profile


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
    check_wanted(objects, profile)
    passed = [part for flag in flags_for(profile, objects)[1:] for part in ("-Xlinker", flag)]
    stubs = ensure_stubs(arch, profile.glibc)
    files = map(str, (out, *objects, *ensure_helpers(arch, objects), *stubs))
    report(out, run([program, "-nostdlib", "-shared", *passed, "-o", *files], DEADLINE_S))

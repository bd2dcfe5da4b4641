"""What linking knows about each architecture; a new one is a row here."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.errors import UsageError
from toolchain.profiles import Profile


@dataclass(frozen=True)
class Architecture:
    """How libraries of one architecture are linked and recognised.

    Attributes
    ----------
    emulation
        lld's name of the output format (`-m`).
    zig_target
        Zig's name of the target, for assembling the stub libraries.
    machine
        `e_machine`, in pyelftools' words.
    page
        Alignment in bytes that load segments must have: the largest page of such Linux kernels.
    glibc_base
        Version node of the first glibc of this architecture
        (glibc, `sysdeps/unix/sysv/linux/*/shlib-versions`).
    gcc
        The C compiler that drives GNU ld for it on a host of another architecture.
    """

    emulation: str
    zig_target: str
    machine: str
    page: int
    glibc_base: str
    gcc: str


ARCHITECTURES = {
    "aarch64": Architecture(
        "aarch64linux", "aarch64-linux-gnu", "EM_AARCH64", 0x10000, "2.17", "aarch64-linux-gnu-gcc"
    ),
    "x86_64": Architecture(
        "elf_x86_64", "x86_64-linux-gnu", "EM_X86_64", 0x1000, "2.2.5", "x86_64-linux-gnu-gcc"
    ),
}


def architecture_of(profile: Profile) -> Architecture:
    """Return the row of the profile's architecture.

    Raises
    ------
    UsageError
        Nothing is known about linking for it.
    """
    found = ARCHITECTURES.get(profile.arch)
    if found is None:
        raise UsageError(
            f"board class {profile.name}: nothing is known about linking for {profile.triple}",
            f"the architectures are: {', '.join(sorted(ARCHITECTURES))}",
        )
    return found

"""What linking knows about each architecture; a new one is a row here."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.errors import UsageError
from toolchain.profiles import Profile

# ELF for the Arm Architecture, section 5.2 "ELF header".
_EF_ARM_EABI_5, _EF_ARM_ABI_FLOAT_HARD = 0x5000000, 0x400


@dataclass(frozen=True)
class Architecture:
    """How libraries of one architecture are linked and recognised.

    Attributes
    ----------
    emulation
        lld's name of the output format (`-m`).
    zig_target
        Zig's name of the target, for assembling the stub libraries.
    machine, bits, flags
        `e_machine`, in pyelftools' words, the file's class, and `e_flags`.
    page
        Alignment in bytes that load segments must have: the largest page of such Linux kernels
        (Android: 16 KiB, https://developer.android.com/guide/practices/page-sizes).
    glibc_base
        Version node of the first glibc of this architecture
        (glibc, `sysdeps/unix/sysv/linux/*/shlib-versions`); None for Android, whose symbols a
        library names without versions.
    gcc
        The C compiler that drives GNU ld for it on a host of another architecture.
    helpers
        LLVM calls functions of the Arm run-time ABI, which a library brings along.
    """

    emulation: str
    zig_target: str
    machine: str
    bits: int
    flags: int
    page: int
    glibc_base: str | None
    gcc: str
    helpers: bool = False

    @property
    def hard_float(self) -> bool:
        """Whether objects and libraries must say that they pass floats in VFP registers."""
        return bool(self.flags & _EF_ARM_ABI_FLOAT_HARD)

    @property
    def android(self) -> bool:
        """Whether it is Android on that architecture."""
        return self.glibc_base is None


ARCHITECTURES = {
    "aarch64": Architecture(
        "aarch64linux", "aarch64-linux-gnu", "EM_AARCH64", 64, 0, 0x10000, "2.17", "aarch64-linux-gnu-gcc"
    ),
    "aarch64-android": Architecture(
        "aarch64linux", "aarch64-linux-android", "EM_AARCH64", 64, 0, 0x4000, None, "aarch64-linux-gnu-gcc"
    ),
    "armv7a": Architecture(
        "armelf_linux_eabi",
        "arm-linux-gnueabihf",
        "EM_ARM",
        32,
        _EF_ARM_EABI_5 | _EF_ARM_ABI_FLOAT_HARD,
        0x1000,
        "2.4",
        "arm-linux-gnueabihf-gcc",
        helpers=True,
    ),
    "x86_64": Architecture(
        "elf_x86_64", "x86_64-linux-gnu", "EM_X86_64", 64, 0, 0x1000, "2.2.5", "x86_64-linux-gnu-gcc"
    ),
}


def architecture_of(profile: Profile) -> Architecture:
    """Return the row of the profile's architecture.

    Raises
    ------
    UsageError
        Nothing is known about linking for it.
    """
    found = ARCHITECTURES.get(profile.arch + "-android" * profile.android)
    if found is None:
        raise UsageError(
            f"board class {profile.name}: nothing is known about linking for {profile.triple}",
            f"the architectures are: {', '.join(sorted(ARCHITECTURES))}",
        )
    return found

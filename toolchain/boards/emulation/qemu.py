"""User-mode emulators: what runs the programs of other architectures as processes of this host."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from toolchain.configuration.settings import settings
from toolchain.profiles import Profile


@dataclass(frozen=True)
class UserMode:
    """An emulator for one architecture.

    Attributes
    ----------
    program
        The emulator: a name on the PATH, or a path.
    program_key, sysroot_key
        The configuration keys of `program` and of the folder `sysroot`.
    sysroot
        Where the architecture's C library lies, below `lib`.
    loader
        Its dynamic loader, without which nothing starts.
    package
        Debian's package of that C library.
    """

    program: str
    program_key: str
    sysroot: Path
    sysroot_key: str
    loader: Path
    package: str


def user_modes() -> dict[str, UserMode]:
    """Return the emulators by architecture, as configured; whether they are there is another matter."""
    found = settings()
    return {
        "aarch64": UserMode(
            program=found.qemu_aarch64,
            program_key="qemu_aarch64",
            sysroot=found.sysroot_aarch64,
            sysroot_key="sysroot_aarch64",
            loader=found.sysroot_aarch64 / "lib" / "ld-linux-aarch64.so.1",
            package="libc6-arm64-cross",
        ),
        "armv7a": UserMode(
            program=found.qemu_arm,
            program_key="qemu_arm",
            sysroot=found.sysroot_arm,
            sysroot_key="sysroot_arm",
            loader=found.sysroot_arm / "lib" / "ld-linux-armhf.so.3",
            package="libc6-armhf-cross",
        ),
    }


def emulator(profile: Profile) -> tuple[str, ...]:
    """Return what to put before a program of that class to run it here; empty if nothing is needed."""
    if profile.arch == platform.machine():
        return ()
    mode = user_modes()[profile.arch]
    return (mode.program, "-cpu", profile.clusters[0].cpu, "-L", str(mode.sysroot))

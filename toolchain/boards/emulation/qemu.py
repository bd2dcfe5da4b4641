"""The user-mode emulators of qemu, which run programs of other architectures as processes of this host."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from toolchain.architectures.architecture import Qemu
from toolchain.architectures.table import LINUX
from toolchain.configuration.settings import settings
from toolchain.profiles import Profile

# Cores that no qemu of today's distributions knows, and one with the same instructions that it does.
_LIKE = {"cortex-a78ae": "cortex-a76"}


@dataclass(frozen=True)
class UserMode:
    """An emulator for one architecture.

    Attributes
    ----------
    program
        The emulator: a name that is looked up in PATH, or a path.
    program_key, sysroot_key
        The configuration keys of `program` and of the folder `sysroot`.
    sysroot
        Folder whose `lib` has the architecture's C library.
    loader
        The C library's dynamic loader.
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
    """Return the configured emulator of each architecture; it may not be installed."""
    return {row.name: _user_mode(row.qemu) for row in LINUX.values() if row.qemu}


def _user_mode(qemu: Qemu) -> UserMode:
    program_key, sysroot_key = f"qemu_{qemu.name}", f"sysroot_{qemu.name}"
    sysroot = Path(getattr(settings(), sysroot_key))
    return UserMode(
        program=_installed(str(getattr(settings(), program_key))),
        program_key=program_key,
        sysroot=sysroot,
        sysroot_key=sysroot_key,
        loader=sysroot / "lib" / qemu.loader,
        package=qemu.package,
    )


def _installed(program: str) -> str:
    """Return the emulator's name on this host: newer releases of Debian have it without `-static`."""
    plain = program.removesuffix("-static")
    return plain if shutil.which(program) is None and shutil.which(plain) else program


def is_foreign(profile: Profile) -> bool:
    """Return whether this host's CPU cannot run programs of that class without an emulator."""
    return profile.architecture.uname != platform.machine()


def emulator(profile: Profile) -> tuple[str, ...]:
    """Return the command that runs programs of that class here, to be put before theirs; may be empty."""
    if not is_foreign(profile):
        return ()
    mode = user_modes()[profile.arch]
    return (mode.program, "-cpu", emulated_cpu(profile), "-L", str(mode.sysroot))


def emulated_cpu(profile: Profile) -> str:
    """Return the CPU that qemu emulates for a class: its first core, or a like one that qemu knows."""
    core = profile.clusters[0].cpu
    return _LIKE.get(core, core)

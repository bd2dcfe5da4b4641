"""The user-mode emulators of qemu, which run programs of other architectures as processes of this host."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from toolchain.architectures.table import LINUX, Qemu
from toolchain.configuration.settings import settings
from toolchain.devices.table import kind_of
from toolchain.errors import MissingError, UsageError
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


# Checks whether an emulated board of a class can run on this host.

KINDS = ("auto", "process", "container", "system")


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of emulated board.

    Raises
    ------
    UsageError
        It is not one of `KINDS`.
    """
    if kind not in KINDS:
        raise UsageError(f"--kind {kind}: unknown", f"the kinds are: {', '.join(KINDS)}")


def check_test_bed(profile: Profile, kind: str, device: str) -> None:
    """Refuse a device driver that an emulated board of this class and kind cannot have.

    Raises
    ------
    UsageError
        There is no driver for emulated boards, the board is a process, or its class has no such device.
    """
    bed = kind_of(device).test_bed
    if bed is None:
        raise UsageError(f"--{device}: emulated boards have no driver of it", "leave the option out")
    if kind == "system":
        raise UsageError(
            f"--{device}: a board that is a machine has no driver of it", "leave out --kind system"
        )
    if kind == "process" and not bed.driver:
        raise UsageError(
            f"--{device}: a board that is a process has no driver of it", "leave out --kind process"
        )
    if all(entry.kind != device for entry in profile.devices):
        raise UsageError(
            f"--{device}: boards of class {profile.name} have no device for it",
            f"leave the option out; a class with one: {bed.board_class}",
        )


def check_host(profile: Profile) -> None:
    """Raise an error if this host cannot run the programs of a board that is emulated by a process.

    Raises
    ------
    UsageError
        No emulator runs programs of its architecture on this host.
    MissingError
        The emulator, or the C library to run under it, is not installed.
    """
    host = platform.machine()
    if not is_foreign(profile):
        return
    modes = user_modes()
    if profile.arch not in modes:
        raise UsageError(
            f"board class {profile.name}: {profile.arch} cannot be emulated as a process on {host}",
            f"use a class for {', '.join({**modes, host: None})}",
        )
    mode = modes[profile.arch]
    if shutil.which(mode.program) is None:
        raise MissingError(
            f"no {mode.program!r} on this machine: it runs the programs of {profile.name} boards",
            f"apt-get install qemu-user-static, or set TOOLCHAIN_{mode.program_key.upper()}",
        )
    if not mode.loader.exists():
        raise MissingError(
            f"no {profile.arch} C library in {mode.sysroot} ({mode.loader} is not there)",
            f"apt-get install {mode.package}, or set TOOLCHAIN_{mode.sysroot_key.upper()}",
        )

"""Checks whether an emulated board of a class can run on this host."""

from __future__ import annotations

import platform
import shutil

from toolchain.boards.emulation.qemu import is_foreign, user_modes
from toolchain.devices.table import kind_of
from toolchain.errors import MissingError, UsageError
from toolchain.profiles import Profile

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
    if kind == "process" and not bed.is_file:
        raise UsageError(
            f"--{device}: a board that is a process has no driver of it", "leave out --kind process"
        )
    if all(each.kind != device for each in profile.devices):
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

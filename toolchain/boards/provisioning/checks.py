"""Checks that a board must pass before provisioning writes anything."""

from __future__ import annotations

import math
import re
from pathlib import PurePosixPath

from toolchain.answers import lie, shown
from toolchain.boards.provisioning.facts import Clock, Facts
from toolchain.boards.provisioning.steps import (
    Parcel,
    SetupOptions,
    account_comment,
    account_is_finished,
    unused_bytes,
)
from toolchain.boards.provisioning.units import check_service
from toolchain.errors import ToolchainError, UsageError
from toolchain.linking.linker import version_key
from toolchain.profiles import Profile
from toolchain.quantities import counted
from toolchain.runtime.fingerprint import GLIBC_FLOOR

# Room that a board should have beside what is sent: for a network's library and its inputs. The zoo's largest
# library has 100 MiB of weights.
ROOMY_MIB = 128
OVERHEAD_MIB = 1  # for folders, links and state
CLOCK_WARNS_S = 300.0
CLOCK_REFUSES_S = 86400.0
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}")  # useradd(8)
_GOVERNOR = re.compile(r"[a-z_]+")


def check_options(options: SetupOptions) -> None:
    """Refuse malformed names in the options.

    Raises
    ------
    UsageError
        The name of a governor or of the account is malformed.
    """
    for option, governor in (("--governor", options.governor), ("--gpu-governor", options.gpu_governor)):
        if governor is not None and not _GOVERNOR.fullmatch(governor):
            raise UsageError(f"{option} {governor!r}: not a governor's name", "for example: performance")
    check_account(options.account)
    if options.service is not None:
        check_service(options.service)


def check_account(account: str | None) -> None:
    """Refuse a malformed account name, and `root`."""
    if account is not None and not _ACCOUNT.fullmatch(account):
        raise UsageError(
            f"--account {account!r}: not an account's name",
            "use up to 32 lower-case letters, digits, '-' and '_', a letter first",
        )
    if account == "root":
        raise UsageError("--account root: that account exists everywhere", "use a name of its own")


def check_machine(board: str, profile: Profile, facts: Facts) -> None:
    """Refuse a board that cannot run `edge-rt` of its class.

    Raises
    ------
    ToolchainError
        The machine is not that of its class, or its glibc is older than the class or `edge-rt` needs.
    """
    wanted = profile.architecture.uname
    if facts.machine != wanted:
        raise ToolchainError(
            f"board {board} is a {facts.machine} machine, its class {profile.name} is {wanted}; "
            "nothing was written",
            "give the board another class: `toolchain board list` shows them",
        )
    floor = max(profile.glibc or GLIBC_FLOOR, GLIBC_FLOOR, key=version_key)
    if facts.glibc is None:
        raise ToolchainError(
            f"board {board} has no glibc (musl?), its class {profile.name} needs {floor}; "
            "nothing was written",
            "use a system with glibc, such as Debian or Ubuntu",
        )
    if version_key(facts.glibc) < version_key(floor):
        lower = f"lower `glibc` in the board.toml of {profile.name}, or " if floor != GLIBC_FLOOR else ""
        raise ToolchainError(
            f"board {board} has glibc {facts.glibc}, its class {profile.name} needs {floor}; "
            "nothing was written",
            f"{lower}update the board's system",
        )


def check_folder(
    board: str, facts: Facts, parcels: tuple[Parcel, ...], *, rootable: bool, spare_mib: int = 0
) -> list[str]:
    """Refuse a board whose folder cannot hold the missing files, or where no program may run.

    A missing folder is accepted if root can create it (`rootable`).

    Parameters
    ----------
    spare_mib
        Room that has to be left for networks, in MiB.

    Returns
    -------
    list
        Warnings: little room would be left for networks, or the board does not say how much there is.

    Raises
    ------
    ToolchainError
        The folder is read-only, its file system is too full, or it is mounted `noexec`.
    """
    if facts.noexec is not None:
        raise ToolchainError(
            f"board {board}: no program may run in {facts.root}: its file system, {facts.noexec}, is mounted "
            "noexec; nothing was written",
            _elsewhere(board, facts),
        )
    missing = [cargo for parcel in parcels for cargo in parcel.missing(facts)]
    if not missing:
        return []
    if facts.readonly is not None:
        raise ToolchainError(
            f"board {board}: the file system of {facts.root}, {facts.readonly}, is mounted read-only; "
            "nothing was written",
            _elsewhere(board, facts),
        )
    if not facts.writable and (facts.mode or not rootable):
        raise ToolchainError(
            f"board {board}: {facts.user} cannot write in {facts.root}; nothing was written",
            f"see who owns it: `toolchain board exec {board} -- ls -ld {facts.root}`",
        )
    sent = sum(cargo.size or 0 for cargo in missing) - unused_bytes(facts, parcels)
    return _check_room(board, facts, sent / 2**20, spare_mib)


def _check_room(board: str, facts: Facts, sent_mib: float, spare_mib: int) -> list[str]:
    if facts.free_kib is None:
        return [f"board {board} does not say how much is free in {facts.root}"]
    free, needed = facts.free_kib / 1024, sent_mib + OVERHEAD_MIB + spare_mib
    if free < needed:
        spare = f" ({spare_mib} of them for networks: --spare-mib)" if spare_mib else ""
        raise ToolchainError(
            f"board {board} has {free:.0f} MiB free in {facts.root}, "
            f"{math.ceil(needed)} MiB are needed{spare}; nothing was written",
            f"free some: `toolchain board exec {board} -- df -h`; or {_elsewhere(board, facts)}",
        )
    left = free - sent_mib
    if left < max(ROOMY_MIB, spare_mib):
        return [f"board {board} has {left:.0f} MiB in {facts.root} left for networks"]
    return []


def _elsewhere(board: str, facts: Facts) -> str:
    """Return the hint to use another folder, by name if the board has a file system for it."""
    others = (place for place in facts.places if not PurePosixPath(facts.root).is_relative_to(place))
    place = next(others, None)
    root = f"{place}/edge" if place else "/FOLDER"
    what = "" if place else ", on a file system where the login may write and programs may run"
    return f'use another folder: `root = "{root}"` in [boards.{board}] of toolchain.toml{what}'


def check_clock(board: str, facts: Facts, *, ignore: bool) -> list[str]:
    """Return a warning if the clocks of board and host differ by more than 5 minutes.

    Raises
    ------
    ToolchainError
        They differ by more than a day, and not `ignore`.
    """
    off = abs(facts.clock_offset_s)
    if off < CLOCK_WARNS_S:
        return []
    ahead = "ahead of" if facts.clock_offset_s > 0 else "behind"
    message = f"the clock of board {board} is {_span(off)} {ahead} this host's"
    if off < CLOCK_REFUSES_S or ignore:
        return [message]
    raise ToolchainError(
        f"{message}; nothing was written",
        "set the wrong one: `sudo timedatectl set-ntp true`, or without a network "
        f"`toolchain board exec {board} -- sudo date -u -s @$(date +%s)`; or --ignore-clock",
    )


def check_root_options(board: str, facts: Facts, options: SetupOptions) -> None:
    """Refuse a governor or an account that this board cannot have.

    Raises
    ------
    UsageError
        The board has no such clock or governor, or the account exists and provisioning did not create it.
    """
    _check_governor(board, "--governor", options.governor, [c for c in facts.clocks if c.unit == "CPU"])
    _check_governor(
        board, "--gpu-governor", options.gpu_governor, [c for c in facts.clocks if c.unit == "GPU"]
    )
    comment = account_comment(facts)
    if options.account not in (None, facts.user) and comment is not None and not account_is_ours(facts):
        raise UsageError(
            f"--account {options.account}: board {board} already has that account, made by someone else",
            "use another name, or log in with that account: `user` of the board in toolchain.toml",
        )


def _check_governor(board: str, option: str, governor: str | None, clocks: list[Clock]) -> None:
    if governor is None:
        return
    unit, framework = ("CPU", "cpufreq") if option == "--governor" else ("GPU", "devfreq")
    if not clocks:
        raise UsageError(
            f"{option} {governor}: board {board} has no {unit} frequency control ({framework})",
            "leave the option out; its clock is fixed, or set by what it runs under",
        )
    for clock in clocks:
        if clock.available and governor not in clock.available:
            raise UsageError(
                f"{option} {governor}: board {board} has no such {unit} governor",
                f"it has: {', '.join(clock.available)}",
            )


def check_login(board: str, account: str, facts: Facts) -> None:
    """Refuse a board that reports another user than `account`, which toolchain.toml would name.

    Raises
    ------
    CheckError
        The login as `account` belongs to another user.
    """
    if facts.user != account:
        problem = f"user is {shown(facts.user)}, and the login was as {account}"
        raise lie(board, "what it says of itself", problem, of_system=True)


def account_is_ours(facts: Facts) -> bool:
    """Return whether provisioning created the account that was asked about, even if not to the end."""
    return account_is_finished(facts) or (account_comment(facts) or "").endswith(" unfinished")


def _span(seconds: float) -> str:
    for unit, size in (("years", 31_557_600), ("days", 86_400), ("hours", 3_600)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return counted(seconds / 60, "minute", form=".0f")

"""Provisions a board, or undoes it: reads facts, checks them, does the steps."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import ask_program, program_path
from toolchain.boards.provisioning.apply import Root, apply_steps, become_root, can_become_root, no_root
from toolchain.boards.provisioning.checks import (
    account_is_ours,
    check_account,
    check_clock,
    check_folder,
    check_login,
    check_machine,
    check_options,
    check_root_options,
)
from toolchain.boards.provisioning.design import Design, check_design, design_removal, design_steps
from toolchain.boards.provisioning.facts import Facts, read_facts
from toolchain.boards.provisioning.how import AT_ONCE, How
from toolchain.boards.provisioning.steps import (
    BoardStep,
    Cargo,
    Parcel,
    RunCommand,
    SetupOptions,
    account_is_finished,
    account_steps,
    class_steps,
    folder_steps,
    governor_steps,
    install_steps,
    note_class,
    removal_steps,
)
from toolchain.boards.provisioning.units import Service, units_of
from toolchain.boards.transport import Home, Transport
from toolchain.devices.device import CPU
from toolchain.errors import UsageError
from toolchain.profiles import Profile
from toolchain.runtime import arch_of, ensure_runtime, planned_runtime

# Plans the steps that install, change or remove the units of services.

_PLAIN = re.compile(r"[A-Za-z0-9_@.+/-]+")
# $1, $2: the first unit's name and text, and so on. What is cut off while it is written is no unit yet.
_INSTALL = """set -e
cd /etc/systemd/system
umask 022
names=
while [ $# -gt 0 ]; do
  printf '%s' "$2" > ".$1.new"
  mv -f -- ".$1.new" "$1"
  names="$names $1"
  shift 2
done
systemctl daemon-reload
for name in $names; do
  if grep -q '^\\[Install\\]' "$name"; then systemctl enable --quiet "$name"; fi
done
for name in $names; do
  case $name in *.path) systemctl restart "$name";; esac
done
"""
_REMOVE = """set -e
cd /etc/systemd/system
systemctl disable --now --quiet -- "$@" 2>/dev/null || systemctl stop -- "$@"
rm -f -- "$@"
systemctl daemon-reload
"""


def check_systemd(board: str, facts: Facts, service: Service | None) -> None:
    """Refuse a service for a board that cannot have it.

    Raises
    ------
    UsageError
        systemd does not run there, or the program would run as root.
    """
    if service is None:
        return
    if not facts.systemd:
        raise UsageError(
            f"--service {service.app}: board {board} does not run systemd",
            "start the program by the board's own init; docs/howto/serve.md says what it needs",
        )
    if not _PLAIN.fullmatch(facts.root):
        raise UsageError(
            f"--service {service.app}: systemd cannot watch {facts.root} on board {board}",
            "give the board a `root` of letters, digits and . _ - + @ in toolchain.toml",
        )
    if facts.user == "root":
        raise UsageError(
            f"--service {service.app}: the program would run as root on board {board}",
            "make an account for it: --account edge, or log in with another: `user` in toolchain.toml",
        )


def service_steps(facts: Facts, service: Service | None, *, devices: bool) -> list[BoardStep]:
    """Return the step that installs a service's units and starts them; none if they are there.

    Parameters
    ----------
    facts
        Of the account that owns the installation.
    devices
        Whether the program needs devices, such as a GPU's.
    """
    if service is None:
        return []
    units = units_of(service, facts.root, facts.user, devices=devices)
    main = f"edge-{service.app}.service"
    mine = [name for name in facts.units if _app_of(name) == service.app]
    steps = _removal([name for name in mine if name not in units])
    if any(
        facts.units.get(name) != hashlib.sha256(text.encode()).hexdigest() for name, text in units.items()
    ):
        words = [word for name in sorted(units) for word in (name, units[name])]
        install = RunCommand(("sh", "-c", _INSTALL, "sh", *words))
        title = f"install the service edge-{service.app}: {', '.join(sorted(units))}"
        steps.append(BoardStep(title, install, needs_root=True, outside=True))
        start = RunCommand(("systemctl", "restart", main))
        steps.append(BoardStep(f"start {main}", start, needs_root=True, outside=True))
    return steps


def service_removal(facts: Facts) -> list[BoardStep]:
    """Return the step that stops and removes the units of all services of this installation."""
    return _removal(sorted(facts.units))


def _removal(names: list[str]) -> list[BoardStep]:
    if not names:
        return []
    remove = RunCommand(("sh", "-c", _REMOVE, "sh", *names))
    return [BoardStep(f"stop and remove {', '.join(names)}", remove, needs_root=True, outside=True)]


def _app_of(unit: str) -> str:
    name = unit.removeprefix("edge-").rpartition(".")[0]
    return name.removesuffix("-recover").removesuffix("-activated")


# The files that provisioning uploads to boards of a class.

SDK = "sdk"  # on the board; has a folder for each version of library and header
PROGRAM_LINK = "edge-rt"  # points to the version provisioned last, for a user's own scripts


def parcels_for(
    profile: Profile, *, sdk: bool, progress: Callable[[str], None] | None = None, compiles: bool = True
) -> tuple[Parcel, ...]:
    """Return `edge-rt` for a class of boards, compiled if necessary, and with `sdk` the C library.

    Parameters
    ----------
    compiles
        False: compile nothing, for a plan; files that are not compiled yet have no size.

    Raises
    ------
    UsageError, MissingError, ToolchainError
        See `ensure_runtime`.
    """
    arch = arch_of(profile)
    runtime = ensure_runtime(arch, progress=progress) if compiles else planned_runtime(arch)
    program = _cargo(program_path(runtime), runtime.program, executable=True)
    parcels = (Parcel("edge-rt", (program,), PROGRAM_LINK, program.remote, runtime.fingerprint),)
    if not sdk:
        return parcels
    version = runtime.fingerprint[:12]
    files = [_cargo(f"{SDK}/{version}/{file.name}", file) for file in (runtime.library, runtime.header)]
    return (*parcels, Parcel("the C library", tuple(files), f"{SDK}/current", version))


def _cargo(remote: str, content: Path, *, executable: bool = False) -> Cargo:
    return Cargo(remote, content, content.stat().st_size if content.exists() else None, executable)


NO_OPTIONS = SetupOptions()


@dataclass(frozen=True)
class Provisioned:
    """The result of provisioning.

    Attributes
    ----------
    steps
        Steps that were needed; empty if the board was ready.
    done
        Whether the steps were done; False for a dry run.
    moved
        Whether the installation belongs to another account than the one this host logs in with.
    skipped
        Options that were left out, each with the reason.
    warnings
        Problems that do not prevent provisioning, such as a wrong clock.
    """

    board: str
    facts: Facts
    steps: tuple[BoardStep, ...]
    done: bool
    moved: bool = False
    skipped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was changed on the board."""
        return self.done and bool(self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the result as `toolchain board provision --json` prints it."""
        return {
            "board": self.board,
            "changed": self.changed,
            "dry_run": not self.done,
            "steps": [
                {"title": step.title, "runs": str(step.action), "needs_root": step.needs_root}
                for step in self.steps
            ],
            "user": self.facts.user,
            "skipped": list(self.skipped),
            "warnings": list(self.warnings),
            "machine": self.facts.machine,
            "glibc": self.facts.glibc,
            "root": self.facts.root,
        }


def provision(
    board: Board, options: SetupOptions = NO_OPTIONS, how: How = AT_ONCE, design: Design | None = None
) -> Provisioned:
    """Make a board ready: do only the missing steps, then check that `edge-rt` answers.

    Parameters
    ----------
    design
        Design to load into the programmable logic; None leaves the logic alone. Neither it nor a service is
        allowed together with an account, which has no sudo.

    Raises
    ------
    UsageError
        The board cannot have what an option asks for, or has no system of its own.
    ToolchainError
        The board does not match its class, is too full, read-only or its clock is wrong (nothing was
        written then); or a step failed (the next run continues there).
    """
    check_options(options)
    with _home(board) as home:
        facts = read_facts(board, home, options.account)
        check_machine(board.name, board.profile, facts)
        check_root_options(board.name, facts, options)
        check_design(board.name, facts, design)
        check_systemd(board.name, facts, options.service)
        warnings = check_clock(board.name, facts, ignore=options.ignore_clock)
        skipped = []
        rootable = can_become_root(facts, how.ask_sudo)
        if options.account is not None and account_steps(facts, options) and not rootable:
            skipped.append(f"--account {options.account}: {no_root(board, facts, 'it').message}")
            options = replace(options, account=None)
        parcels = parcels_for(board.profile, sdk=options.sdk, progress=how.progress, compiles=not how.dry_run)
        system = [*account_steps(facts, options), *governor_steps(facts, options)]
        moves = options.account not in (None, facts.user)
        user_board = _as_user(board, options.account or "") if moves else None
        if moves:  # this login's folder is needed only for the note of settings to restore
            steps = [*(folder_steps(facts) if governor_steps(facts, options) else []), *system]
        else:
            has_sudo = facts.sudo != "none"  # what it wants is said of the step that needs it
            warnings += check_folder(
                board.name, facts, parcels, rootable=has_sudo, spare_mib=options.spare_mib
            )
            steps = [*folder_steps(facts), *system, *install_steps(facts, parcels)]
            steps += class_steps(facts, board.record_class)
            steps += design_steps(facts, design)
            devices = any(device.kind != CPU for device in board.profile.devices)
            steps += service_steps(facts, options.service, devices=devices)
        root = _root(board, home, facts, steps, how)
        if not how.dry_run:
            apply_steps(board, home, steps, root, how.progress)
    if user_board is not None:
        if not how.dry_run or account_is_finished(facts):
            rest = replace(options, account=None, governor=None, gpu_governor=None)
            with closing(user_board):
                second = provision(replace(board, transport=user_board), rest, replace(how, ask_sudo=None))
            check_login(board.name, options.account or "", second.facts)
            all_warnings = tuple(dict.fromkeys((*warnings, *second.warnings)))
            return replace(second, steps=(*steps, *second.steps), moved=True, warnings=all_warnings)
        skipped.append(f"steps in the home folder of {options.account} are planned once it exists")
    elif not how.dry_run:
        for parcel in parcels:
            if parcel.fingerprint:
                ask_program(board, parcel.files[0].remote, parcel.fingerprint)
    return Provisioned(
        board.name, facts, tuple(steps), not how.dry_run, skipped=tuple(skipped), warnings=tuple(warnings)
    )


def unprovision(board: Board, account: str | None = None, how: How = AT_ONCE) -> Provisioned:
    """Undo provisioning: stop what runs there, restore the governors, remove all our files.

    Parameters
    ----------
    account
        Also remove this account, if provisioning created it.

    Raises
    ------
    UsageError
        Provisioning did not create the account, or the board has no system of its own.
    ToolchainError
        A step needs root and the login cannot become root; or a step failed (the next run continues there).
    """
    check_account(account)
    with _home(board) as home:
        facts = read_facts(board, home, account)
        if account is not None and facts.account is not None and not account_is_ours(facts):
            raise UsageError(
                f"--account {account}: board {board.name} had that account before; it is not removed",
                "leave the option out",
            )
        if account == facts.user:
            raise UsageError(
                f"--account {account}: that is the account this host logs in with",
                "log in with another that may use sudo: `user` of the board in toolchain.toml",
            )
        steps = [*service_removal(facts), *design_removal(facts), *removal_steps(facts, account)]
        root = _root(board, home, facts, steps, how)
        if not how.dry_run:
            apply_steps(board, home, steps, root, how.progress)
    return Provisioned(board.name, facts, tuple(steps), not how.dry_run)


def give_class(board: Board) -> None:
    """Note the class on a provisioned board that has just been given its first trust.

    Raises
    ------
    ToolchainError
        The board cannot be reached, or its folder of releases cannot be written.
    """
    with board.transport.at_home() as home:
        apply_steps(board, home, [note_class(board.record_class)], None, AT_ONCE.progress)


@contextmanager
def _home(board: Board) -> Iterator[Home]:
    if not board.transport.has_system:
        raise UsageError(
            f"board {board.name} is a process of this host: it already has edge-rt, "
            "and has no system to provision",
            "boards over SSH and emulated boards of kind container can be provisioned",
        )
    with board.transport.at_home() as home:
        yield home


def _as_user(board: Board, user: str) -> Transport:
    if not board.transport.is_remote:
        raise UsageError(
            f"--account {user}: board {board.name} is reached without a login", "leave the option out"
        )
    return board.transport.as_user(user)


def _root(board: Board, home: Home, facts: Facts, steps: list[BoardStep], how: How) -> Root | None:
    """Return how to become root if a step needs it; in a dry run only check that it is possible."""
    needing = next((step for step in steps if step.needs_root), None)
    if needing is None:
        return None
    if not can_become_root(facts, how.ask_sudo):
        raise no_root(board, facts, f"to {needing.title}")
    return None if how.dry_run else become_root(board, home, facts, how.ask_sudo)

"""Reads in one round trip what a board is and what provisioning has put on it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from toolchain.answers import Answer, Word, formed, lie, problem, shown
from toolchain.architectures.table import linux_rows
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import text_of
from toolchain.boards.transport import Home, RemoteFile
from toolchain.errors import ToolchainError
from toolchain.foreign import last_line

RECORD = "provisioned.json"  # on the board
_SCRIPT = Path(__file__).with_name("facts.sh")
_SECONDS = 60.0  # an emulated board takes 2 s; sudo may wait for a name server
_FIRST, _LAST = "edge-toolchain facts 1", "end"
UNIT_MARK = "# edge-toolchain "  # first line of the units that provisioning writes, before the folder
_REPEATED = {"policy", "gpu", "file", "link", "entry", "unit", "place"}
_OPTIONAL = {"account", "fpga", "systemd", "noexec", "readonly", "class"}
_NEEDED = {
    *("machine", "bits", "glibc", "user", "uid", "home", "root", "mode", "writable", "free_kib", "sudo"),
    *("record", "clock"),
}

Sudo = Literal["root", "free", "password", "terminal", "none"]
_WHAT = "what it says of itself"


class _Output(Answer):
    """The values of the script's lines that occur once."""

    machine: Word
    bits: Word
    glibc: Word
    user: Word
    home: Word
    root: Word
    mode: str = Field(pattern=r"^[0-7]{0,4}$")
    writable: Literal["yes", "no"]
    free_kib: Annotated[int | None, Field(ge=0, le=2**60), BeforeValidator(lambda text: text or None)]
    sudo: Sudo
    clock: int = Field(ge=0, le=10**12)
    account: Word | None = None
    noexec: Word | None = None
    readonly: Word | None = None
    noted_class: str | None = Field(None, alias="class", max_length=4096)
    systemd: Literal["yes", "no"] = "no"
    fpga: str | None = Field(None, pattern=r"^(manager|xdevcfg)\|[ -~]{0,4096}$")


class OriginalSettings(BaseModel):
    """Settings that provisioning changed outside its folder, kept on the board to be restored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    governors: dict[Word, Word] = {}  # the original governor of each clock, by the clock's folder


@dataclass(frozen=True)
class Clock:
    """A clock of CPU cores or of the GPU: its folder in /sys, present governor and available governors."""

    folder: str
    governor: str
    available: tuple[str, ...]
    unit: Literal["CPU", "GPU"] = "CPU"

    @property
    def file(self) -> str:
        """The file to which a governor is written, of cpufreq or devfreq."""
        return f"{self.folder}/{'scaling_governor' if self.unit == 'CPU' else 'governor'}"


@dataclass(frozen=True)
class Facts:
    """Facts that a board's script reported.

    Attributes
    ----------
    machine
        The machine as programs see it: `armv7l` for 32-bit programs on an arm64 kernel.
    glibc
        Version of glibc; None for another C library.
    root
        The installation's folder.
    mode
        Permissions of that folder in octal digits; empty if it does not exist.
    writable, free_kib
        Whether the login may write there, and free KiB, None if the board does not say it; of the nearest
        existing parent if it does not exist.
    sudo
        How to become root: the login is root, or sudo works without a password, may work with one,
        works at a terminal alone (`requiretty`), or is not installed.
    clock_offset_s
        Seconds that the board's clock is ahead of this host's.
    clocks
        Clocks whose governor can be set.
    files, links
        Files and links of the installation: size and time of each file, target of each link, by path.
    entries
        Names of the entries in the installation's folder.
    account
        Line of /etc/passwd of the account that was asked about; None if there is no such account.
    fpga
        How Linux loads designs into the programmable logic, `|`, then the note of the loaded design;
        None if the board has no such logic.
    systemd
        Whether systemd runs there.
    units
        SHA-256 of each systemd unit that provisioning wrote for this installation, by its name;
        `unfinished` where it is not enabled yet.
    noexec, readonly
        Where the folder's file system is mounted, if no program may run there, or if it is read-only.
    places
        Where other file systems are mounted that the login may write to and run programs on.
    noted_class
        Content of the note that says the board's class to the installer; None if it has no releases.
    """

    machine: str
    glibc: str | None
    user: str
    home: str
    root: str
    mode: str
    writable: bool
    free_kib: int | None
    sudo: Sudo
    clock_offset_s: float
    clocks: tuple[Clock, ...] = ()
    files: dict[str, RemoteFile] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    entries: tuple[str, ...] = ()
    record: OriginalSettings = field(default_factory=OriginalSettings)
    account: str | None = None
    fpga: str | None = None
    systemd: bool = False
    units: dict[str, str] = field(default_factory=dict)
    noexec: str | None = None
    readonly: str | None = None
    places: tuple[str, ...] = ()
    noted_class: str | None = None


def read_facts(
    board: Board, home: Home, account: str | None = None, now: Callable[[], float] = time.time
) -> Facts:
    """Ask a board for its facts; nothing is written there.

    Parameters
    ----------
    home
        A folder that exists on the board, and the path from it to the installation's folder.
    account
        Account to ask about too; None for none.
    now
        Returns this host's clock in seconds since 1970.

    Raises
    ------
    ToolchainError
        The board cannot be reached, has no POSIX shell, or its answer cannot be parsed.
    """
    before = now()
    # As an argument: to hand over input takes a folder for temporary files, which the board may not have.
    completed = home.transport.run(["sh", "-c", _script(), "sh", home.root, account or ""], timeout=_SECONDS)
    after = now()
    if completed.returncode != 0:
        raise ToolchainError(
            f"the facts of board {board.name} cannot be read: sh ended with {completed.returncode}: "
            f"{last_line(completed.stderr)}",
            "provisioning needs a POSIX shell and coreutils (or busybox) on the board",
        )
    return parse_facts(board.name, text_of(completed, board.name, _WHAT), before, after)


def _script() -> str:
    """Return the script without comments and indentation: dropbear takes 9000 characters at most."""
    lines = [line.strip() for line in _SCRIPT.read_text().splitlines()]
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def parse_facts(board: str, text: str, before: float, after: float) -> Facts:
    """Parse the script's output; text that a login prints before it is ignored.

    Parameters
    ----------
    before, after
        This host's clock when the script was sent and when it had answered, in seconds since 1970.

    Raises
    ------
    ToolchainError
        A line or field is missing, unknown or malformed; the message names it.
    """
    one, many = _lines(board, text)
    answer = formed(_Output, one, board, _WHAT)
    try:
        return Facts(
            machine=_machine(answer.machine, answer.bits),
            glibc=_glibc(answer.glibc),
            user=answer.user,
            home=answer.home,
            root=answer.root,
            mode=answer.mode,
            writable=answer.writable == "yes",
            free_kib=answer.free_kib,
            sudo=answer.sudo,
            # The board read its clock between these two times.
            clock_offset_s=answer.clock - min(max(answer.clock, before), after),
            clocks=(
                *(_clock("policy", line, "CPU") for line in many["policy"]),
                *(_clock("gpu", line, "GPU") for line in many["gpu"]),
            ),
            files=dict(_file(line) for line in many["file"]),
            links=dict(_pair(line) for line in many["link"]),
            entries=tuple(many["entry"]),
            record=_record(board, answer.root, one["record"]),
            account=answer.account or None,
            fpga=answer.fpga,
            systemd=answer.systemd == "yes",
            units=dict(_unit(line) for line in many["unit"]),
            noexec=answer.noexec,
            readonly=answer.readonly,
            places=tuple(many["place"]),
            noted_class=answer.noted_class,
        )
    except ValueError as error:
        raise lie(board, _WHAT, str(error), of_system=True) from error


def _record(board: str, root: str, text: str) -> OriginalSettings:
    try:
        return OriginalSettings.model_validate_json(text) if text else OriginalSettings()
    except ValidationError as error:
        raise ToolchainError(
            f"board {board}: {root}/{RECORD} is broken: {problem(error)}",
            f"remove that file on the board: `toolchain board exec {board} -- rm {RECORD}`",
        ) from error


def _lines(board: str, text: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    lines = text.splitlines()
    one: dict[str, str] = {}
    many: dict[str, list[str]] = {key: [] for key in _REPEATED}
    if _FIRST in lines and lines[-1] == _LAST:
        for line in lines[lines.index(_FIRST) + 1 : -1]:
            key, _, value = line.partition("=")
            if not line.isprintable():
                raise _unclear(board, line)
            if key in _REPEATED:
                many[key].append(value)
            elif key in _NEEDED | _OPTIONAL and key not in one:
                one[key] = value
            else:
                raise _unclear(board, line)
        if one.keys() >= _NEEDED:
            return one, many
        raise _unclear(board, f"no {min(_NEEDED - one.keys())}")
    raise _unclear(board, lines[-1] if lines else "nothing")


def _unclear(board: str, line: str) -> ToolchainError:
    return ToolchainError(
        f"board {board}: the facts it reports cannot be read: {line[:200]!r}",
        "its login must run a POSIX shell; look with `toolchain board shell`",
    )


def _machine(kernel: str, bits: str) -> str:
    """Return `uname -m` as programs of that many bits see it: a 64-bit kernel also runs 32-bit programs."""
    rows = [row for row in linux_rows() if kernel in row.runs_on]
    fitting = [row for row in rows if bits == str(row.bits)] or rows
    return fitting[0].uname if len(fitting) == 1 else kernel


def _glibc(text: str) -> str | None:
    # getconf prints `glibc 2.36`, ldd `ldd (Debian GLIBC 2.36-9) 2.36`; musl's ldd prints neither. glibc
    # itself: `GNU C Library (…) stable release version 2.36.`, before 2.27 `… 2.24, by Roland McGrath et al.`
    match = re.search(r"\s(\d+\.\d+)(?:\.\d+)*\.?(?:, by .*)?$", text)
    return match.group(1) if match else None


def _clock(key: str, line: str, unit: Literal["CPU", "GPU"]) -> Clock:
    parts = line.split("|")
    if len(parts) != 3:
        raise ValueError(f"{key} is {shown(line)}: folder, governor and governors are wanted")
    return Clock(parts[0], parts[1], tuple(parts[2].split()), unit)


def _file(line: str) -> tuple[str, RemoteFile]:
    match = re.fullmatch(r"([0-9]{1,19}) (-?[0-9]{1,19}) (.+)", line)
    if not match:
        raise ValueError(f"file is {shown(line)}: size, time and path are wanted")
    return match[3], RemoteFile(int(match[1]), float(match[2]))


def _pair(line: str) -> tuple[str, str]:
    first, blank, second = line.partition(" ")
    if not blank:
        raise ValueError(f"link is {shown(line)}: path and target are wanted")
    return first, second


def _unit(line: str) -> tuple[str, str]:
    match = re.fullmatch(r"([0-9a-f]{64}|unfinished) (edge-[a-z0-9._-]{1,80}\.(?:service|path))", line)
    if not match:
        raise ValueError(f"unit is {shown(line)}: a digest and a unit's name are wanted")
    return match[2], match[1]

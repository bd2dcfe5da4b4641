"""The state of boards. All are asked at once, so that one that does not answer delays no other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import ValidationError

from toolchain.answers import formed
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import DevicesThere, InstalledVersion, State, text_of
from toolchain.boards.edge_rt.install import command, state_folder
from toolchain.boards.edge_rt.looks import Look, looks_of, nodes_of
from toolchain.devices.device import CPU
from toolchain.errors import ToolchainError
from toolchain.foreign import printable

_SECONDS = 30.0
_DRIVER_SECONDS = 10.0  # for each driver, within _SECONDS
_WHAT = "what it says of itself"

# Plain POSIX, so that a board without an installation answers too. $1 is the installation's folder; $2 is
# the number of seconds a driver has to answer, "" if the class has no device with a driver; $3 is
# edge-rt's state folder.
_SCRIPT = r"""
say() { printf '%s=%s\n' "$1" "$2"; }
read -r load _ </proc/loadavg && say load_1min "$load"
read -r up _ </proc/uptime && say uptime_s "${up%.*}"
for zone in /sys/class/thermal/thermal_zone*/temp; do
    [ -r "$zone" ] && say millidegrees "$(cat "$zone" 2>/dev/null)"
done
for policy in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do
    [ -r "$policy" ] && say governor "$(cat "$policy")"
done
while read -r key value _; do
    [ "$key" = MemAvailable: ] && say memory_free_kib "$value"
done </proc/meminfo
for node in NODES; do
    [ -e "$node" ] && say node "$node"
done
LOOKS
if cd -- "$1" 2>/dev/null; then
    newest=$(ls -t bin/edge-rt-* 2>/dev/null | head -n 1)
    if [ -n "$newest" ]; then
        # Versions of edge-rt without drivers do not know these options.
        state=$3
        ask() { "./$newest" info "$@" --state "$state"; }
        { [ -n "$2" ] && said=$(ask --devices --timeout "$2" 2>/dev/null); } || said=$(ask 2>&1)
        say info "$(printf %s "$said" | tr '\n' ' ')"
    fi
fi
free=$(df -Pk . 2>/dev/null | { read -r _; read -r _ _ _ free _; echo "$free"; })
[ "$free" ] ||
    free=$(stat -f -c '%a %S' . 2>/dev/null | { read -r blocks size && echo $((blocks / 1024 * size)); })
say disk_free_kib "$free"
"""
_LISTS = ("millidegrees", "governor", "node", "gpu", "closed", "icd", "library", "display")


@dataclass(frozen=True)
class Status:
    """The state of a board; None for a value that it does not report, and for all if `error` is set.

    Attributes
    ----------
    temperature_c
        Temperature of the hottest sensor.
    governor
        Governors of its cores, separated by commas.
    edge_rt
        Version of the edge-rt on the board; None if the board is not provisioned.
    devices
        Kinds of devices of its class, then the device files of accelerators found on the board.
    emulated
        Whether the board, with its devices, is emulated: its times say nothing about a real one.
    drivers
        Answers of the drivers, if the board has edge-rt and its class has devices with drivers: one entry
        for each kind, with names and details, or the problem.
    hints
        What prevents a GPU of its class from computing, or slows it down, and what to do about it.
    holder
        Who measures: process and what it does; None if nobody does.
    waiting
        Who waits for that, the first one first: process, what it wants to do, and seconds waited.
    ssh, ssh_reason
        Who speaks with its SSH server, `paramiko` or `openssh`, and why not paramiko; None without a login.
    """

    name: str
    board_class: str
    error: str | None = None
    hint: str | None = None
    load_1min: float | None = None
    uptime_s: int | None = None
    temperature_c: float | None = None
    governor: str | None = None
    memory_free_mib: int | None = None
    disk_free_mib: int | None = None
    edge_rt: str | None = None
    devices: list[str] = field(default_factory=list)
    emulated: bool = False
    drivers: list[dict[str, Any]] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    holder: dict[str, Any] | None = None
    waiting: list[dict[str, Any]] = field(default_factory=list)
    ssh: str | None = None
    ssh_reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        document = asdict(self)
        return {"name": document.pop("name"), "class": document.pop("board_class"), **document}


def statuses(boards: Sequence[Board]) -> Iterator[Status]:
    """Ask all boards at once; yield each status as soon as it arrives."""
    answers: queue.SimpleQueue[Status | BaseException] = queue.SimpleQueue()

    def ask(board: Board) -> None:
        try:
            answers.put(status(board))
        except BaseException as error:
            answers.put(error)

    for board in boards:
        threading.Thread(target=ask, args=(board,), daemon=True).start()
    for _ in boards:
        answer = answers.get()
        if isinstance(answer, BaseException):
            raise answer
        yield answer


def status(board: Board) -> Status:
    """Ask one board; if it cannot be reached, return a status with the error."""
    devices: list[str] = [device.kind for device in board.profile.devices]
    patience = f"{_DRIVER_SECONDS:g}" if any(kind != CPU for kind in devices) else ""
    looks = looks_of(devices)
    try:
        said = _said(board, patience, looks)
    except ToolchainError as error:
        return Status(
            board.name, board.profile.name, error.message, error.hint, devices=devices, **_way(board)
        )
    there = None if said.info is None else _installed(said.info)
    drivers = drivers_of(there.devices, board) if there else []
    advising = looks if board.transport.has_system else []
    return Status(
        board.name,
        board.profile.name,
        load_1min=said.load_1min,
        uptime_s=said.uptime_s,
        temperature_c=max((degrees / 1000 for degrees in said.millidegrees), default=None),
        governor=",".join(sorted(set(said.governor))) or None,
        memory_free_mib=None if said.memory_free_kib is None else said.memory_free_kib // 1024,
        disk_free_mib=None if said.disk_free_kib is None else said.disk_free_kib // 1024,
        edge_rt=there.version if there else _broken(said.info),
        devices=[*devices, *said.node],
        emulated=board.emulated,
        drivers=drivers,
        hints=[hint for look in advising for hint in look.hints(board.name, said, drivers)],
        holder=there.holder.model_dump() if there and there.holder else None,
        waiting=[each.model_dump() for each in there.waiting] if there else [],
        **_way(board),
    )


def _way(board: Board) -> dict[str, Any]:
    reached = board.transport.reached()
    return {"ssh": reached.way, "ssh_reason": reached.reason or None} if reached else {}


def _said(board: Board, patience: str, looks: Sequence[Look]) -> State:
    transport = board.transport
    if not transport.has_system:
        return _program_said(board)
    nodes = " ".join(nodes_of(device.kind for device in board.profile.devices))
    script = _SCRIPT.replace("NODES", nodes).replace("LOOKS", "\n".join(look.script for look in looks))
    with transport.at_home() as home:
        arguments = [home.root, patience, state_folder(board.only_device)]
        completed = home.transport.run(["sh", "-c", script, "sh", *arguments], timeout=_SECONDS)
    lines = text_of(completed, board.name, _WHAT).splitlines()
    values: dict[str, list[str]] = {}
    for key, _, value in (line.partition("=") for line in lines):
        if value.strip():
            values.setdefault(key, []).append(value)
    several = {key: tuple(values.pop(key, ())) for key in _LISTS}
    others = {key: tuple(values.pop(key, ())) for look in looks for key in look.keys}
    single = {key: value[0] for key, value in values.items()}
    return formed(State, {**single, **several, "others": others}, board.name, _WHAT)


def _program_said(board: Board) -> State:
    transport = board.transport
    there = transport.listing("bin")
    programs = sorted((n for n in there if n.startswith("edge-rt-")), key=lambda n: there[n].changed)
    if not programs:
        return State()
    asking = command(f"bin/{programs[-1]}", "info", only_device=board.only_device)
    completed = transport.run(asking, timeout=_SECONDS)
    return State(info=completed.stdout.decode(errors="replace"))


def _installed(info: str) -> InstalledVersion | None:
    try:
        return InstalledVersion.model_validate_json(info)
    except ValidationError:
        return None


def _broken(info: str | None) -> str | None:
    return None if info is None else f"broken: {printable(info.strip()[:100])}"


def drivers_of(kinds: Iterable[DevicesThere], board: Board) -> list[dict[str, Any]]:
    """Return the answers for the kinds of devices that the board's class has, without the CPU.

    Every edge-rt reports a simulated VTA; it is left out for classes without a VTA.
    """
    known = {device.kind for device in board.profile.devices} - {CPU}
    return [kind.model_dump(mode="json") for kind in kinds if kind.kind in known]

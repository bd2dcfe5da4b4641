"""How boards are doing: asked all at once, so that a dead one delays none."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import ValidationError

from toolchain.answers import formed
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import DevicesThere, Provenance, State, text_of
from toolchain.boards.edge_rt.install import command
from toolchain.boards.edge_rt.looks import Look, looks_of, nodes_of
from toolchain.boards.transport import Transport
from toolchain.devices.device import CPU
from toolchain.errors import ToolchainError
from toolchain.foreign import printable

_SECONDS = 30.0
_DRIVER_SECONDS = 10.0  # of them
_WHAT = "what it says of itself"

# Plain POSIX: a board that has nothing of ours answers too. $1 is the installation's folder, $2 how many
# seconds a driver has to answer, "" where the class has no device with one.
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
        # An edge-rt from before there were drivers knows no option for them.
        ask() { "./$newest" info "$@" --state state; }
        { [ -n "$2" ] && said=$(ask --devices --timeout "$2" 2>/dev/null); } || said=$(ask 2>&1)
        say info "$(printf %s "$said" | tr '\n' ' ')"
    fi
fi
say disk_free_kib "$(df -Pk . | { read -r _; read -r _ _ _ free _; echo "$free"; })"
"""
_LISTS = ("millidegrees", "governor", "node", "gpu", "closed", "icd", "library", "display")


@dataclass(frozen=True)
class Status:
    """What a board says; None where it does not say it, and everywhere if `error` tells why.

    Attributes
    ----------
    temperature_c
        Of its hottest sensor.
    governor
        Of its cores; several with commas.
    edge_rt
        The version there; None if it is not provisioned.
    devices
        Of its class, and the device files of accelerators that are there.
    emulated
        The board is, and its devices with it: none of its times says anything of a real one.
    drivers
        What the drivers of such devices say, where edge-rt is there and its class has any: an entry for
        each kind, with names, details, or the problem.
    hints
        What keeps a GPU of its class from computing, or makes it slower than it could be.
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

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        document = asdict(self)
        return {"name": document.pop("name"), "class": document.pop("board_class"), **document}


def statuses(boards: Sequence[Board]) -> Iterator[Status]:
    """Ask all boards at once; yield what each says as soon as it does."""
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
    """Ask one board; that it cannot be reached is an answer too."""
    devices: list[str] = [device.kind for device in board.profile.devices]
    patience = f"{_DRIVER_SECONDS:g}" if any(kind != CPU for kind in devices) else ""
    looks = looks_of(devices)
    try:
        said = _said(board, patience, looks)
    except ToolchainError as error:
        return Status(board.name, board.profile.name, error.message, error.hint, devices=devices)
    drivers = [] if said.info is None else _drivers(said.info, board)
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
        edge_rt=None if said.info is None else _version(said.info),
        devices=[*devices, *said.node],
        emulated=board.emulated,
        drivers=drivers,
        hints=[hint for look in advising for hint in look.hints(board.name, said, drivers)],
    )


def _said(board: Board, patience: str, looks: Sequence[Look]) -> State:
    transport = board.transport
    if not transport.has_system:
        return _program_said(transport)
    nodes = " ".join(nodes_of(device.kind for device in board.profile.devices))
    script = _SCRIPT.replace("NODES", nodes).replace("LOOKS", "\n".join(look.script for look in looks))
    with transport.at_home() as home:
        completed = home.transport.run(["sh", "-c", script, "sh", home.root, patience], timeout=_SECONDS)
    lines = text_of(completed, board.name, _WHAT).splitlines()
    values: dict[str, list[str]] = {}
    for key, _, value in (line.partition("=") for line in lines):
        if value.strip():
            values.setdefault(key, []).append(value)
    several = {key: tuple(values.pop(key, ())) for key in _LISTS}
    others = {key: tuple(values.pop(key, ())) for look in looks for key in look.keys}
    single = {key: value[0] for key, value in values.items()}
    return formed(State, {**single, **several, "others": others}, board.name, _WHAT)


def _program_said(transport: Transport) -> State:
    there = transport.listing("bin")
    programs = sorted((n for n in there if n.startswith("edge-rt-")), key=lambda n: there[n].changed)
    if not programs:
        return State()
    completed = transport.run(command(f"bin/{programs[-1]}", "info"), timeout=_SECONDS)
    return State(info=completed.stdout.decode(errors="replace"))


def _version(info: str) -> str:
    try:
        return Provenance.model_validate_json(info).version
    except ValidationError:
        return f"broken: {printable(info.strip()[:100])}"


def _drivers(info: str, board: Board) -> list[dict[str, Any]]:
    try:
        kinds = Provenance.model_validate_json(info).devices
    except ValidationError:
        return []
    return drivers_of(kinds, board)


def drivers_of(kinds: Iterable[DevicesThere], board: Board) -> list[dict[str, Any]]:
    """Return what was said of the kinds that the board's class has, the CPU apart.

    Every edge-rt simulates a VTA: that is no matter where there is none.
    """
    known = {device.kind for device in board.profile.devices} - {CPU}
    return [kind.model_dump(mode="json") for kind in kinds if kind.kind in known]

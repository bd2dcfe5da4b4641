"""Asks boards for their state, all at once: a board that does not answer delays no other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import ValidationError

from toolchain.answers import formed
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import DevicesThere, InstalledVersion, State, text_of
from toolchain.boards.edge_rt.install import command, state_folder
from toolchain.devices.device import CPU
from toolchain.devices.table import OWN, KindTable, kind_of
from toolchain.errors import ToolchainError
from toolchain.foreign import printable

# Finds what prevents a board's GPU from computing, or slows it down.

OPENCL = "opencl"  # the kind of device that these hints are about
_PERFORMANCE = "performance"

# For the script of `board status`, which defines `say`; it only reads. The clocks are those of devfreq
# (Linux, Documentation/ABI/testing/sysfs-class-devfreq); a display server is found by its process name.
SCRIPT = r"""
gpus() {
    named=' '
    for gpu in /sys/class/devfreq/*gpu* /sys/class/devfreq/*mali* /sys/class/misc/mali0/device/devfreq/*; do
        [ -r "$gpu/governor" ] || continue
        case $named in *" ${gpu##*/} "*) continue;; esac
        named="$named${gpu##*/} "
        now=$(cat "$gpu/cur_freq" 2>/dev/null)
        say gpu "${gpu##*/}|$(cat "$gpu/governor")|$now|$(cat "$gpu/available_frequencies" 2>/dev/null)"
    done
    for node in /dev/mali0 /dev/dri/renderD*; do
        [ -e "$node" ] || continue
        { [ -r "$node" ] && [ -w "$node" ]; } || say closed "$node|$(stat -c %G "$node")"
    done
    for file in /etc/OpenCL/vendors/*.icd; do
        [ -r "$file" ] && say icd "$file"
    done
    for folder in /usr/lib /usr/lib/* /usr/local/lib /opt/*/lib; do
        for file in "$folder"/libmali.so* "$folder"/libOpenCL.so*; do
            [ -e "$file" ] && say library "$file"
        done
    done
    cat /proc/[0-9]*/comm 2>/dev/null | while read -r name; do
        case $name in
            Xorg|Xwayland|weston|gnome-shell|kwin_*|sway|labwc|wayfire) say display "$name";;
        esac
    done
}
"""


def gpu_hints(board: str, state: State, drivers: list[dict[str, Any]]) -> list[str]:
    """Return advice for a board whose class has an OpenCL GPU.

    Parameters
    ----------
    drivers
        Answers of the board's drivers, one entry for each kind of device; empty if no edge-rt is installed.
    """
    mali = any(node == "/dev/mali0" for node in state.node)
    hints = [hint for line in state.gpu for hint in _clock(board, line)]
    if (state.gpu or mali) and state.display:
        hints.append(f"{state.display[0]} also uses the GPU: stop it while networks are measured, "
                     "`sudo systemctl stop display-manager`")  # fmt: skip
    hints += [_closed(line) for line in state.closed]
    computing = any(kind["kind"] == OPENCL and kind["names"] for kind in drivers)
    if not computing:
        hints += _driver(state, mali)
    return hints


def _clock(board: str, line: str) -> Iterator[str]:
    name, governor, now, all_of_it = (*line.split("|"), "", "", "")[:4]
    if governor != _PERFORMANCE:
        yield (f"the governor of {name} is {governor!r}, its clock changes with the load: "
               f"`toolchain board provision {board} --gpu-governor {_PERFORMANCE}`")  # fmt: skip
        return
    clocks = [int(word) for word in all_of_it.split() if word.isdecimal()]
    if now.isdecimal() and clocks and int(now) < max(clocks):
        speed = f"{_mhz(int(now))} of {_mhz(max(clocks))} MHz"
        yield f"{name} runs at {speed}: it is throttled by heat, or limited by max_freq"


def _mhz(hertz: int) -> int:
    return round(hertz / 1e6)


def _closed(line: str) -> str:
    node, _, group = line.partition("|")
    add = f": `sudo usermod -aG {group} $USER`, and log in again" if group not in ("", "root") else ""
    return f"this login may not open {node}{add}"


def _driver(state: State, mali: bool) -> list[str]:
    vendors = [file for file in state.library if "libmali" in file]
    loaders = [file for file in state.library if "libOpenCL" in file]
    if loaders and not state.icd and vendors:
        name = vendors[0].rpartition("/")[2]
        return [f"{loaders[0]} finds no driver, /etc/OpenCL/vendors has no .icd file: "
                f"`echo {name} | sudo tee /etc/OpenCL/vendors/mali.icd`"]  # fmt: skip
    if not loaders and not vendors:
        package = "libmali of the board's vendor" if mali else "the vendor's, or pocl-opencl-icd for the CPU"
        return [f"there is no OpenCL driver (libmali, libOpenCL): install {package}"]
    return []


# The part of `board status` that belongs to kinds of devices: what to read on a board, what to advise.


@dataclass(frozen=True)
class Look:
    """A look at a board whose class has a device of one kind.

    Attributes
    ----------
    script
        POSIX shell commands that only read, and report with `say KEY VALUE`.
    hints
        Returns advice, given the board's name, the values read there, and the answers of its drivers
        (one entry for each kind of device).
    keys
        Keys that the script reports and `State` has no field for; their values are in `State.others`.
    """

    script: str
    hints: Callable[[str, State, list[dict[str, Any]]], list[str]]
    keys: tuple[str, ...] = ()


LOOKS: KindTable[Look] = KindTable("status", {"opencl": Look(f"{SCRIPT}\ngpus", gpu_hints)})


def looks_of(kinds: Iterable[str]) -> list[Look]:
    """Return the checks for these kinds of devices, without repetition."""
    return [look for kind in dict.fromkeys(kinds) if (look := LOOKS.find(kind)) is not None]


def nodes_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return shell patterns of the device files to list: of our own kinds, and of these kinds."""
    rows = [*OWN.values(), *(kind_of(kind) for kind in kinds)]
    return tuple(dict.fromkeys(node for row in rows for node in row.nodes))


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
        state = _ask(board, patience, looks)
    except ToolchainError as error:
        return Status(
            board.name, board.profile.name, error.message, error.hint, devices=devices, **_way(board)
        )
    edge_rt = None if state.info is None else _installed(state.info)
    drivers = drivers_of(edge_rt.devices, board) if edge_rt else []
    advising = looks if board.transport.has_system else []
    return Status(
        board.name,
        board.profile.name,
        load_1min=state.load_1min,
        uptime_s=state.uptime_s,
        temperature_c=max((degrees / 1000 for degrees in state.millidegrees), default=None),
        governor=",".join(sorted(set(state.governor))) or None,
        memory_free_mib=None if state.memory_free_kib is None else state.memory_free_kib // 1024,
        disk_free_mib=None if state.disk_free_kib is None else state.disk_free_kib // 1024,
        edge_rt=edge_rt.version if edge_rt else _broken(state.info),
        devices=[*devices, *state.node],
        emulated=board.emulated,
        drivers=drivers,
        hints=[hint for look in advising for hint in look.hints(board.name, state, drivers)],
        holder=edge_rt.holder.model_dump() if edge_rt and edge_rt.holder else None,
        waiting=[session.model_dump() for session in edge_rt.waiting] if edge_rt else [],
        **_way(board),
    )


def _way(board: Board) -> dict[str, Any]:
    reached = board.transport.reached()
    return {"ssh": reached.way, "ssh_reason": reached.reason or None} if reached else {}


def _ask(board: Board, patience: str, looks: Sequence[Look]) -> State:
    transport = board.transport
    if not transport.has_system:
        return _ask_program(board)
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


def _ask_program(board: Board) -> State:
    transport = board.transport
    files = transport.listing("bin")
    programs = sorted((n for n in files if n.startswith("edge-rt-")), key=lambda n: files[n].changed)
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

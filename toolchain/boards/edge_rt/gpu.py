"""Finds what prevents a board's GPU from computing, or slows it down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolchain.boards.edge_rt.answers import State

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
        said = f"{_mhz(int(now))} of {_mhz(max(clocks))} MHz"
        yield f"{name} runs at {said}: it is throttled by heat, or limited by max_freq"


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

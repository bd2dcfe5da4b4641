"""Reads what only a board's system tells: kernel, CPU model, and present clocks, temperature, governors."""

from __future__ import annotations

from pydantic import Field

from toolchain.acceptance.found import BoardConditions
from toolchain.acceptance.public import keyword
from toolchain.answers import Answer, Several, Word, formed
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import Millidegrees, text_of

_SECONDS = 30.0
_WHAT = "what it says of its clocks"
_KHZ, _HZ = 1000, 10**6  # per MHz, of cpufreq and of devfreq

# Plain POSIX, and it only reads. Documentation/admin-guide/pm/cpufreq.rst and ABI/testing/sysfs-class-devfreq
# of Linux define the files.
_SCRIPT = r"""
say() { printf '%s=%s\n' "$1" "$2"; }
say kernel "$(uname -r)"
say model "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)"
for policy in /sys/devices/system/cpu/cpufreq/policy*; do
    [ -r "$policy/scaling_cur_freq" ] || continue
    say khz "$(cat "$policy/scaling_cur_freq" 2>/dev/null)"
    say most_khz "$(cat "$policy/scaling_max_freq" 2>/dev/null)"
    say governor "$(cat "$policy/scaling_governor" 2>/dev/null)"
done
for gpu in /sys/class/devfreq/*gpu* /sys/class/devfreq/*mali*; do
    [ -r "$gpu/cur_freq" ] || continue
    say gpu_hz "$(cat "$gpu/cur_freq" 2>/dev/null)"
    say gpu_most_hz "$(cat "$gpu/max_freq" 2>/dev/null)"
done
for zone in /sys/class/thermal/thermal_zone*/temp; do
    [ -r "$zone" ] && say millidegrees "$(cat "$zone" 2>/dev/null)"
done
:
"""
_LISTS = ("khz", "most_khz", "governor", "gpu_hz", "gpu_most_hz", "millidegrees")


class SystemSaid(Answer):
    """The lines that the script printed."""

    kernel: Word | None = None
    model: Word | None = None
    khz: Several[int] = Field((), max_length=1024)
    most_khz: Several[int] = Field((), max_length=1024)
    governor: Several[Word] = Field((), max_length=1024)
    gpu_hz: Several[int] = Field((), max_length=64)
    gpu_most_hz: Several[int] = Field((), max_length=64)
    millidegrees: Several[Millidegrees] = Field((), max_length=1000)

    def conditions(self) -> BoardConditions:
        """Return the values of the moment."""
        return BoardConditions(
            temperature_c=max((degrees / 1000 for degrees in self.millidegrees), default=None),
            governors=tuple(sorted({keyword(each) for each in self.governor}))[:64],
            mhz=_mhz(self.khz, _KHZ),
            most_mhz=_mhz(self.most_khz, _KHZ),
            gpu_mhz=_mhz(self.gpu_hz, _HZ),
            gpu_most_mhz=_mhz(self.gpu_most_hz, _HZ),
        )


def _mhz(frequencies: tuple[int, ...], per_mhz: int) -> tuple[int, ...]:
    return tuple(min(10**6, max(0, each // per_mhz)) for each in frequencies)


def ask_system(board: Board) -> SystemSaid:
    """Ask the system of a board; a board without one answers nothing.

    Raises
    ------
    ToolchainError
        The board cannot be reached, or its answer cannot be right.
    """
    if not board.transport.has_system:
        return SystemSaid()
    with board.transport.at_home() as home:
        completed = home.transport.run(["sh", "-c", _SCRIPT], timeout=_SECONDS)
    values: dict[str, list[str]] = {}
    for line in text_of(completed, board.name, _WHAT).splitlines():
        key, _, value = line.partition("=")
        if value.strip():
            values.setdefault(key, []).append(value.strip())
    several = {key: tuple(values.pop(key, ())) for key in _LISTS}
    single = {key: value[0] for key, value in values.items()}
    return formed(SystemSaid, {**single, **several}, board.name, _WHAT)

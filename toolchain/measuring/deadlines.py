"""How long an inference may take before the board is given up."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.architectures.table import ARCHITECTURES, architecture_of
from toolchain.devices.device import CPU
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.profiles import Profile

# A deadline must never end a sound run; it only has to end a hung one: `slow_flops` of the architecture.
# qemu-user computes each float of a vector in software. Measured: an untuned MobileNet, 1.1 GFLOP, takes
# 5 s with two threads on two busy cores of a server; a tenth of that rate leaves room for slower hosts.
_EMULATED = 2e7
# What an architecture or a device that nobody timed does at least: what is slowest here. A simulator may
# stand for a device.
_SLOWEST = min(_EMULATED, *(row.slow_flops for row in ARCHITECTURES.values()))
_START_S = 30.0  # to start the program and load the library on a busy machine
_FLOPS_UNKNOWN = 20e9  # the largest network that such boards sensibly run
_LONGEST_S = 14 * 86400.0  # the system's waits know no more than 24 days; a bundle may say any FLOPs


@dataclass(frozen=True)
class Deadline:
    """Seconds, and where they come from."""

    seconds: float
    reason: str


def deadline(
    flops: float,
    profile: Profile,
    *,
    emulated: bool,
    device: str = CPU,
    runs: int = 1,
    extra_s: float = 0.0,
    timeout: float | None = None,
) -> Deadline:
    """Return the time after which a measurement is hung.

    Parameters
    ----------
    flops
        Floating-point operations of one inference; 0 when not known.
    profile, emulated
        What the board is.
    device
        What computes, as the bundle says. None but CPUs has a speed of its own here yet: a test bed such
        as PoCL or Oclgrind may stand for any.
    runs
        Inferences that are made in any case.
    extra_s
        Seconds that are spent on top: waiting for the board, the time budget of a benchmark.
    timeout
        The user's own choice, which overrides the rest.

    Raises
    ------
    UsageError
        `timeout` is not positive.
    """
    if timeout is not None:
        if not timeout > 0:
            raise UsageError(f"--timeout {timeout:g}: not a time", "give a number of seconds above 0")
        return Deadline(min(timeout, _LONGEST_S), "given by --timeout")
    row = architecture_of(profile.triple)
    rate = _EMULATED if emulated else row.slow_flops if row else _SLOWEST
    if device != CPU:
        rate = _SLOWEST
    work = flops or _FLOPS_UNKNOWN
    seconds = _START_S + kind_of(device).compile_s + extra_s + runs * work / rate
    kind = "emulated " if emulated else ""
    where = f"an {kind}{profile.arch} board"
    return Deadline(
        round(min(seconds, _LONGEST_S), 1),
        f"for {runs} x {work / 1e9:.1f} GFLOP on {where if device == CPU else f'{device} of {where}'}",
    )

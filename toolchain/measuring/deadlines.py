"""Computes deadlines after which a measurement on a board counts as hung."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.architectures.table import ARCHITECTURES, architecture_of
from toolchain.bundles.manifest import Manifest
from toolchain.devices.device import CPU
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.measuring.execution import OnBoard
from toolchain.profiles import Profile

# FLOPS below which a run counts as hung. A deadline must never end a sound run. For real boards the rate is
# the architecture's `slow_flops`. QEMU computes each float of a vector in software: an untuned MobileNet
# (1.1 GFLOP) takes 5 s with two threads on two busy cores of a server; a tenth of that rate leaves room for
# slower hosts.
_EMULATED = 2e7
# Rate for architectures and devices without a measured one: the slowest of all, since a device may be
# simulated.
_SLOWEST = min(_EMULATED, *(row.slow_flops for row in ARCHITECTURES.values()))
_START_S = 30.0  # to start the program and load the library on a busy machine
_FLOPS_UNKNOWN = 20e9  # assumed for unknown FLOPs: the largest network that makes sense on such boards
_LONGEST_S = 14 * 86400.0  # system calls cannot wait more than 24 days, and a bundle may claim any FLOPs


@dataclass(frozen=True)
class Deadline:
    """A time limit in seconds, and the reason for it as text for the user."""

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
) -> Deadline:
    """Return the time after which a measurement counts as hung.

    Parameters
    ----------
    flops
        Floating-point operations of one inference; 0 if unknown.
    profile, emulated
        Class of the board, and whether it is emulated.
    device
        Device in the bundle's manifest. All devices but CPUs get the slowest rate, since a test bed such as
        PoCL or Oclgrind may replace any of them.
    runs
        Least number of inferences.
    extra_s
        Additional seconds: waiting for the board, the time budget of a benchmark.
    """
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


def given_deadline(timeout: float) -> Deadline:
    """Return the deadline that a user gave with `--timeout`, in seconds.

    Raises
    ------
    UsageError
        It is not positive.
    """
    if not timeout > 0:
        raise UsageError(f"--timeout {timeout:g}: not a time", "give a number of seconds above 0")
    return Deadline(min(timeout, _LONGEST_S), "given by --timeout")


def deadline_on(on_board: OnBoard, manifest: Manifest, *, runs: int = 1, extra_s: float = 0.0) -> Deadline:
    """Return the caller's timeout for a bundle on a board; without one, `deadline` plus the time to wait.

    Raises
    ------
    UsageError
        The caller's is not positive.
    """
    if on_board.timeout is not None:
        return given_deadline(on_board.timeout)
    board = on_board.board
    return deadline(
        manifest.model.flops,
        board.profile,
        emulated=board.emulated,
        device=manifest.device,
        runs=runs,
        extra_s=extra_s + (on_board.wait or 0.0),
    )

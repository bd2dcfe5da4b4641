"""The architectures of NVIDIA's GPUs that code is made for, by their names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from toolchain.errors import MissingError, UsageError
from toolchain.foreign import last_line

if TYPE_CHECKING:
    from toolchain.devices.device import Device


NATIVE = "native"
"""In place of an architecture: those of this host's GPUs."""

EMULATED = "emulated"
"""Architecture of the emulated driver, which computes on a CPU; for tests."""

OLDEST = 80
"""Number of the oldest architecture: cp.async and tf32, which kernels use, begin with sm_80."""

_ARCHITECTURE = re.compile(r"sm_([1-9]\d{1,2})")


def architectures_of(device: Device) -> tuple[str, ...]:
    """Return the architectures that an entry of board.toml names, each once, the oldest first.

    Raises
    ------
    ValueError
        It names none, or one that code cannot be made for.
    """
    arch = device.own["arch"]
    names = [arch] if isinstance(arch, str) else arch
    if not isinstance(names, list | tuple) or not names:
        raise ValueError(f"arch is a name such as sm_90, or a list of such names, not {arch!r}")
    return (NATIVE,) if list(names) == [NATIVE] else ordered(names)


def ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Return architectures, each once, the oldest first.

    Raises
    ------
    ValueError
        One of them is none that code can be made for.
    """
    return tuple(sorted(set(names), key=number_of))


def number_of(arch: str) -> int:
    """Return the number of an architecture as libraries store it: 90 for `sm_90`, 0 for `emulated`.

    Raises
    ------
    ValueError
        It is not an architecture that code can be made for.
    """
    if arch == EMULATED:
        return 0
    found = _ARCHITECTURE.fullmatch(arch) if isinstance(arch, str) else None
    if not found or int(found[1]) < OLDEST:
        raise ValueError(f"arch is sm_{OLDEST} or newer, such as sm_90, or {EMULATED}, not {arch!r}")
    return int(found[1])


# The architectures of this host's GPUs, as NVIDIA's driver reports them.

VARIABLE = "TOOLCHAIN_CUDA_ARCH"
"""Environment variable with the architectures of the host's GPUs, for commands in a container."""

_DEADLINE_S = 30.0  # a driver that nobody has used since the machine started takes some seconds
# The numbers are CUresult 0, and CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of the driver API.
_ASK = """
import ctypes
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    raise SystemExit(error)
def call(name, *arguments):
    if code := getattr(cuda, name)(*arguments):
        raise SystemExit(f"{name} of the driver returns error {code}")
count, value = ctypes.c_int(), ctypes.c_int()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
for device in range(count.value):
    for attribute in (75, 76):
        call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        print(value.value, end="")
    print()
"""


def architectures_for(device: Device) -> tuple[str, ...]:
    """Return the architectures that code for a device is made for: of `native`, those of this host's GPUs.

    Raises
    ------
    MissingError, UsageError
        They are those of this host's GPUs, and unknown; see `native_architectures`.
    """
    names = architectures_of(device)
    return native_architectures() if names == (NATIVE,) else names


@cache
def native_architectures() -> tuple[str, ...]:
    """Return the architectures of this host's GPUs that code can be made for, each once, the oldest first.

    Raises
    ------
    MissingError
        There is no GPU, all are too old, or their driver does not answer.
    UsageError
        The environment variable names what is no architecture.
    """
    if given := os.environ.get(VARIABLE):
        return _given(given)
    names = _asked()
    usable = [name for name in names if int(name.removeprefix("sm_")) >= OLDEST]
    if not usable:
        raise MissingError(
            f"this host's GPU is of {names[0]}; code is made for GPUs from sm_{OLDEST} on",
            "leave --device out to build for the CPU, or name another GPU's architecture: --arch sm_90",
        )
    return ordered(usable)


def _given(names: str) -> tuple[str, ...]:
    try:
        return ordered(names.split(","))
    except ValueError as error:
        raise UsageError(f"{VARIABLE}={names}: {error}", f"unset {VARIABLE}, or name the GPU's") from error


def _asked() -> list[str]:
    """Return what the driver says of each GPU."""
    try:
        asked = subprocess.run(
            [sys.executable, "-I", "-c", _ASK], capture_output=True, timeout=_DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _missing(f"the driver did not answer within {_DEADLINE_S:.0f} s") from error
    found = [line for line in asked.stdout.decode(errors="replace").split() if line.isdigit()]
    if asked.returncode or not found:
        raise _missing(last_line(asked.stderr) if asked.returncode else "there is none")
    return [f"sm_{number}" for number in found]


def _missing(why: str) -> MissingError:
    return MissingError(
        f"the architecture of this host's GPU is unknown: {why}", "name the one to build for: --arch sm_90"
    )

"""The architectures of this host's GPUs, as NVIDIA's driver reports them."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

from toolchain.devices.cuda_architectures import NATIVE, OLDEST, architectures_of, ordered
from toolchain.errors import MissingError, UsageError
from toolchain.foreign import last_line

if TYPE_CHECKING:
    from toolchain.devices.device import Device

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

"""The architectures of NVIDIA's GPUs that code is made for, by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

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

"""This host as a board: its class, the level of its CPU, its cores."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from toolchain.architectures.table import linux_rows, of_machine
from toolchain.devices.cuda_architectures import NATIVE
from toolchain.devices.device import Device
from toolchain.errors import UsageError
from toolchain.profiles import Cluster, Profile, load_profile


def host_profile() -> Profile:
    """Return the class of this host: the board `local`.

    x86-64 hosts get the class `x86_64` with the highest feature level of their CPU, so that code for `local`
    uses it.
    """
    machine = platform.machine()
    row = of_machine(machine)
    if row is None or row.host_class is None:
        hosts = ", ".join(row.uname for row in linux_rows() if row.host_class)
        raise UsageError(f"the board 'local' does not exist on a {machine} host", f"use a host of: {hosts}")
    base = load_profile(row.host_class)
    flags = host_cpu_flags()
    beyond = [name for name in (row.half, *row.integers) if name and row.features[name] in flags]
    cores = physical_cores()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return base.model_copy(
        update={
            "name": row.name,
            "description": "this host",
            "clusters": (Cluster(cpu=row.host_cpu or row.level(flags), cores=cores),),
            "optional": tuple(f"+{name}" for name in beyond),  # used by code in float16 or of integers only
            "devices": tuple(_native(device) for device in base.devices),
            "memory_mib": memory,
            "image": "base",
        }
    )


def _native(device: Device) -> Device:
    """Return a device of the class for this host: its architecture is asked for when code is made."""
    if "arch" not in device.own:
        return device
    return Device.model_validate({**device.model_dump(exclude_none=True), "arch": NATIVE})


def host_cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return Linux's names of this CPU's features."""
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo.read_text(), re.MULTILINE)
    return frozenset(match.group(1).split()) if match else frozenset()


def physical_cores() -> int:
    """Return the number of physical cores that this process may use, at least 1."""
    allowed = os.sched_getaffinity(0)
    siblings = set()
    for cpu in allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(topology.read_text() if topology.exists() else str(cpu))
    return max(1, len(siblings))

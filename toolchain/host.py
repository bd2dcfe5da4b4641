"""This host as a board: its class, the level of its CPU, its cores."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from toolchain.errors import UsageError
from toolchain.profiles import Cluster, Profile, load_profile


def host_profile() -> Profile:
    """Return the class of this host: the board `local`.

    x86-64 hosts take the class `x86_64` with the highest feature level their CPU has, so that
    code for `local` uses what is there.
    """
    arch = platform.machine()
    name = {"x86_64": "x86_64", "aarch64": "raspberrypi4"}.get(arch)
    if name is None:
        raise UsageError(f"the board 'local' does not exist on a {arch} host", "use an x86-64 or arm64 host")
    base = load_profile(name)
    flags = host_cpu_flags()
    cpu = x86_level(flags) if arch == "x86_64" else "generic"
    cores = physical_cores()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return base.model_copy(
        update={
            "name": base.name if arch == "x86_64" else "aarch64",
            "description": "this host",
            "clusters": (Cluster(cpu=cpu, cores=cores),),
            "optional": tuple(f"+{feature}" for feature, flag in _HALF.items() if flag in flags),
            "memory_mib": memory,
            "image": "base",
        }
    )


# LLVM's and Linux's names of what computes in float16: only code in float16 asks for it.
_HALF = {"avx512fp16": "avx512_fp16", "fullfp16": "asimdhp"}

# Linux's names of the flags that the x86-64 psABI asks of each level
# (https://gitlab.com/x86-psABIs/x86-64-ABI, "Micro-Architecture Levels").
_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
X86_LEVELS: dict[str, frozenset[str]] = {
    "x86-64-v4": _V4,
    "x86-64-v3": _V3,
    "x86-64-v2": _V2,
    "x86-64": frozenset(),
}


def x86_level(flags: frozenset[str]) -> str:
    """Return the highest x86-64 level whose flags are all in `flags`."""
    return next(level for level, needed in X86_LEVELS.items() if needed <= flags)


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

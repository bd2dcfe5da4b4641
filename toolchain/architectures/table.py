"""The table of architectures. A new one is a row here or in a plugin: docs/howto/add-an-architecture.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from toolchain.architectures.architecture import (
    EF_ARM_ABI_FLOAT_HARD,
    EF_ARM_EABI_5,
    Architecture,
    FastestCore,
    Level,
    Microarchitecture,
    Qemu,
    Rates,
    Seam,
)
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.plugins import PluginRows

# LLVM's and Linux's names of CPU features, and x86-64's feature levels.

# Linux: Documentation/arch/arm64/elf_hwcaps.rst; LLVM: lib/Target/AArch64/AArch64Features.td.
# Features that only intrinsics use (crc, aes, sha2) are left out: no network needs them.
AARCH64 = {
    "fp-armv8": "fp",
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "rdm": "asimdrdm",
    "dotprod": "asimddp",
    "lse": "atomics",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
}
# half: fmla on halves. dot: sdot and udot, four products of bytes for a sum. matrix: smmla, eight.
# bfloat: bfdot, two products of bfloat16.
AARCH64_PRODUCTS = {"half": "fullfp16", "dot": "dotprod", "matrix": "i8mm", "bfloat": "bf16"}
# Linux: arch/arm/kernel/setup.c; LLVM: lib/Target/ARM/ARMFeatures.td. What Linux has no name for
# (fp16, the conversions of VFPv3) is left out.
ARMV7A = {
    "neon": "neon",
    "vfp3": "vfpv3",
    "vfp4": "vfpv4",
    "d32": "vfpd32",
    "hwdiv-arm": "idiva",
    "hwdiv": "idivt",
}
# Linux: arch/x86/include/asm/cpufeatures.h; LLVM: lib/Target/X86/X86.td.
X86_64 = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "popcnt": "popcnt",
    "cx16": "cx16",
    "sahf": "lahf_lm",
    "avx": "avx",
    "avx2": "avx2",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "f16c": "f16c",
    "fma": "fma",
    "lzcnt": "abm",
    "movbe": "movbe",
    "xsave": "xsave",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
}
# dot: vpdpbusd, four products of bytes for a sum, of 64 bytes at once. dot-avx: its VEX form, of 32.
# bfloat: vdpbf16ps, two products of bfloat16.
X86_64_PRODUCTS = {
    "half": "avx512fp16",
    "dot": "avx512vnni",
    "dot-avx": "avxvnni",
    "bfloat": "avx512bf16",
}

# Linux's names of the flags that the x86-64 psABI asks of each level
# (https://gitlab.com/x86-psABIs/x86-64-ABI, "Micro-Architecture Levels").
_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
X86_LEVELS = (
    Level("x86-64"),
    Level("x86-64-v2", _V2),
    Level("x86-64-v3", _V3),
    Level("x86-64-v4", _V4),
)


# Speeds of the cores that classes stand for. Those of x86 were measured on a Sapphire Rapids core at 2.6 GHz
# whose memory gives 16 GB/s, by the layers of ResNet-18 in the network (FMA peak 249 GFLOP/s, half of it with
# AVX2). Only the proportions of these numbers matter. Arm's are a model, since nothing was run on silicon.
# aarch64: Cortex-A72 at 1.8 GHz, one vector of four FMAs a cycle at 95 %, four instructions per transformed
# vector, an rk3399's memory. armv7: Cortex-A9 at 650 MHz, two cycles per vector at 85 %, a Zynq's memory.
_SAPPHIRE_RAPIDS = "measured on a Sapphire Rapids core at 2.6 GHz"
_SSE = Rates(40e9, 3e9, 16e9, 1.8, peak=62e9, source=_SAPPHIRE_RAPIDS, probe="sse")
_X86_RATES = {
    "x86-64": _SSE,
    "x86-64-v2": _SSE,
    "x86-64-v3": Rates(105e9, 7e9, 16e9, 1.8, peak=124.5e9, source=_SAPPHIRE_RAPIDS, probe="avx2"),
    "x86-64-v4": Rates(200e9, 9e9, 16e9, 1.8, peak=249e9, source=_SAPPHIRE_RAPIDS, probe="avx512"),
}
_A72 = "model of all aarch64 cores: a Cortex-A72 at 1.8 GHz"
_A9 = "model of all armv7 cores: a Cortex-A9 at 650 MHz"
_AARCH64_RATES = {"neon": Rates(13.7e9, 1.8e9, 4e9, peak=14.4e9, source=_A72, probe="neon")}
_ARMV7A_RATES = {"neon": Rates(2.2e9, 0.4e9, 0.6e9, peak=2.6e9, source=_A9, probe="neon")}

# Measured on a Zen 5 (family 26) with AVX-512: docs/decisions/0069 says how. Zen 4 (family 25) reaches 90 to
# 98 % of its peak, too; its transforms were not measured.
_ZEN = Microarchitecture(reached=0.97, spilled=1.5)
_MICROARCHITECTURES = {"AuthenticAMD 25": _ZEN, "AuthenticAMD 26": _ZEN}

# Upper bounds: float32 operations of one core in a cycle, two for each multiply-add. x86-64 by the vectors
# that the code uses, two units of 512 or 256 bits, or four of 128 bits without fused multiply-add (Zen), at
# the clock of a Core i9-14900KS. Arm by its cores' pipes (Arm's "Software Optimization Guide" of each core:
# A9 to A75 one vector a cycle, A76 to A78 two); such cores were sold with up to 3 GHz.
_X86_CYCLE = {"x86-64-v4": 64, "x86-64-v3": 32, "x86-64-v2": 16, "x86-64": 16}
_ARM_CYCLE = {
    **{f"cortex-a{number}": 8 for number in (7, 8, 9, 15, 17, 32, 35, 53, 55, 57, 72, 73, 75)},
    **{f"cortex-a{number}": 16 for number in (76, 77, 78)},
}
UNKNOWN_CORE = 32 * 5e9
"""Bound of any other core than x86-64's: four vectors of 128 bits a cycle (Cortex-X, Neoverse V, Apple's) at
5 GHz."""
_X86_FASTEST = FastestCore(64 * 6.2e9, levels={name: ops * 6.2e9 for name, ops in _X86_CYCLE.items()})
_ARM_FASTEST = FastestCore(UNKNOWN_CORE, cpus={name: ops * 3.2e9 for name, ops in _ARM_CYCLE.items()})

# The speeds: an untuned loop nest does one multiply-add in about ten cycles (a scalar load or a cache miss
# in each); boards are found at their lowest clock, 408 MHz on an RK3399, hosts share their cores. On
# armv7 a fused multiply-add is two instructions and registers are few: fifteen cycles at 333 MHz.
_X86_64 = Architecture(
    name="x86_64",
    triple="x86_64-unknown-linux-gnu",
    uname="x86_64",
    runs_on=("x86_64",),
    debian="amd64",
    docker="amd64",
    edge_rt="x86_64",
    host_class="x86_64",
    features=X86_64,
    levels=X86_LEVELS,
    products=X86_64_PRODUCTS,
    nan_bounds=False,  # maxps returns its second operand if one is NaN
    rates=_X86_RATES,
    microarchitectures=_MICROARCHITECTURES,
    fastest=_X86_FASTEST,
    slow_flops=3e8,
    lld="elf_x86_64",
    zig_target="x86_64-linux-gnu",
    gcc="x86_64-linux-gnu-gcc",
    elf_machine="EM_X86_64",
    bits=64,
    page=0x1000,
    glibc_base="2.2.5",
)
_AARCH64 = Architecture(
    name="aarch64",
    triple="aarch64-unknown-linux-gnu",
    uname="aarch64",
    runs_on=("aarch64",),
    debian="arm64",
    docker="arm64",
    edge_rt="aarch64",
    host_class="raspberrypi4",
    host_cpu="generic",
    features=AARCH64,
    levels=(Level("neon"),),
    products=AARCH64_PRODUCTS,
    nan_bounds=True,
    rates=_AARCH64_RATES,
    fastest=_ARM_FASTEST,
    slow_flops=8e7,
    lld="aarch64linux",
    zig_target="aarch64-linux-gnu",
    gcc="aarch64-linux-gnu-gcc",
    elf_machine="EM_AARCH64",
    bits=64,
    page=0x10000,
    glibc_base="2.17",
    qemu=Qemu(
        "aarch64",
        "/usr/aarch64-linux-gnu",
        "ld-linux-aarch64.so.1",
        "libc6-arm64-cross",
        like={"cortex-a78ae": "cortex-a76"},
    ),
)
_AARCH64_ANDROID = replace(
    _AARCH64,
    triple="aarch64-unknown-linux-android",
    edge_rt=None,
    host_class=None,
    zig_target="aarch64-linux-android",
    page=0x4000,
    glibc_base=None,
)
_ARMV7A = Architecture(
    name="armv7a",
    triple="armv7a-unknown-linux-gnueabihf",
    uname="armv7l",
    runs_on=("armv7l", "armv8l", "aarch64"),  # the latter two: a 64-bit kernel
    debian="armhf",
    docker="arm",
    edge_rt="armv7",
    features=ARMV7A,
    levels=(Level("neon"),),
    target_options={"mfloat-abi": "hard"},  # TVM needs it although the triple implies it
    nan_bounds=True,
    multiply_add_features="-expand-fp-mlx,-vmlx-hazards,+use-misched,-vfp4",
    rates=_ARMV7A_RATES,
    fastest=_ARM_FASTEST,
    slow_flops=4e7,
    lld="armelf_linux_eabi",
    zig_target="arm-linux-gnueabihf",
    gcc="arm-linux-gnueabihf-gcc",
    elf_machine="EM_ARM",
    bits=32,
    elf_flags=EF_ARM_EABI_5 | EF_ARM_ABI_FLOAT_HARD,
    page=0x1000,
    glibc_base="2.4",
    helpers=True,
    qemu=Qemu("arm", "/usr/arm-linux-gnueabihf", "ld-linux-armhf.so.3", "libc6-armhf-cross"),
)

ARCHITECTURES = {
    **{row.name: row for row in (_X86_64, _AARCH64, _ARMV7A)},
    "aarch64-android": _AARCH64_ANDROID,
}
"""Architectures of this package, by the first part of the triple; a plugin cannot replace them."""
LINUX = {name: row for name, row in ARCHITECTURES.items() if not row.android}
"""Those of this package on which Linux runs."""

PLUGINS: PluginRows[Architecture] = PluginRows(
    "edge_toolchain.architectures", Architecture, "the architecture {} comes from a plugin"
)
"""Architectures that installed packages add."""


def architecture_names() -> tuple[str, ...]:
    """Return the names of all architectures, those of this package first; no plugin is loaded."""
    return (*ARCHITECTURES, *sorted({plugin.row for plugin in PLUGINS.installed} - set(ARCHITECTURES)))


def linux_rows() -> Iterator[Architecture]:
    """Yield the rows on which Linux runs: those of this package, then those of plugins that can be loaded."""
    yield from LINUX.values()
    for name in sorted({plugin.row for plugin in PLUGINS.installed} - set(ARCHITECTURES)):
        try:
            row = PLUGINS.load(name)
        except ToolchainError:  # raised when its architecture is asked for; the others work without it
            continue
        if row is not None:
            yield row


def architecture_of(triple: str) -> Architecture | None:
    """Return the row of a triple's architecture, None if it is unknown.

    Raises
    ------
    MissingError
        The architecture belongs to a plugin that cannot be loaded.
    """
    name, _, rest = triple.partition("-")
    if "android" in rest:
        return ARCHITECTURES.get(f"{name}-android")
    return ARCHITECTURES.get(name) or PLUGINS.load(name)


def known_architecture(triple: str) -> Architecture:
    """Return the row of a triple's architecture.

    Raises
    ------
    UsageError
        It is unknown.
    MissingError
        As in `architecture_of`.
    """
    row = architecture_of(triple)
    if row is None:
        raise UsageError(
            f"triple {triple!r} is not supported", f"known are: {', '.join(sorted(architecture_names()))}"
        )
    return row


def of_machine(uname: str) -> Architecture | None:
    """Return the row with Linux's name of a machine (`uname -m`), None if it is unknown."""
    return next((row for row in linux_rows() if row.uname == uname), None)


def of_debian(name: str) -> Architecture:
    """Return the row with this Debian name, such as arm64.

    Raises
    ------
    UsageError
        No row has it.
    """
    row = next((row for row in linux_rows() if row.debian == name), None)
    if row is None:
        known = ", ".join(row.debian for row in linux_rows())
        raise UsageError(f"Debian's architecture {name!r} is not supported", f"known are: {known}")
    return row


def wrong_system(triple: str) -> str:
    """Return why networks cannot be built for a triple's operating system; empty if no reason is known.

    Triples of unknown architectures pass: the code that needs their row raises the error.
    """
    hard = [row.triple for row in LINUX.values() if row.hard_float]
    if triple.startswith("arm") and triple not in hard:
        return f"of the 32-bit Arm systems only those with hard float are known: {', '.join(hard)}"
    android = [row.triple for row in ARCHITECTURES.values() if row.android]
    if "android" in triple and triple not in android:
        return f"of Android's systems one is known: {', '.join(android)}"
    return ""


Code = TypeVar("Code")


class CodeColumn(Generic[Code]):
    """A column of the table that is code of an upper room: there it is, by name of the architecture.

    Parameters
    ----------
    seam
        Name of the column; a plugin's `Architecture.code` uses it as a key.
    place
        The table of the upper room, for the error of an architecture that is missing there.
    own
        The code of this package, by `Architecture.name`.
    """

    def __init__(self, seam: Seam, place: str, own: Mapping[str, Code]) -> None:
        self._seam: Seam = seam
        self._place, self._own = place, own

    def of(self, row: Architecture) -> Code:
        """Return the code for an architecture.

        Raises
        ------
        MissingError
            The architecture has none, or that of its plugin cannot be loaded.
        """
        if row.name in self._own:
            return self._own[row.name]
        reference = row.code.get(self._seam)
        if reference is None:
            raise MissingError(
                f"architecture {row.name}: its {self._seam} is missing",
                f"add it to {self._place}; in a plugin, to `code` of its row",
            )
        code: Code = PLUGINS.code(row.name, self._seam, reference)
        return code

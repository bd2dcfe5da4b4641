"""The table of architectures. A new one is a row here, and its emulator's two keys in `Settings`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

# The columns of the table of architectures.

# ELF for the Arm Architecture, section 5.2 "ELF header".
EF_ARM_EABI_5, EF_ARM_ABI_FLOAT_HARD = 0x5000000, 0x400


@dataclass(frozen=True)
class Level:
    """A feature level, and Linux's names of the CPU flags that its code may use."""

    name: str
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Qemu:
    """The emulator that runs an architecture's programs on a host of another one.

    Attributes
    ----------
    name
        QEMU's name of the architecture: in `qemu-<name>-static`, and in the keys `qemu_<name>` and
        `sysroot_<name>`.
    loader
        File name of the dynamic loader, which every program needs.
    package
        Debian's package of the C library.
    """

    name: str
    loader: str
    package: str


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture, combined with the operating system if that matters (Android).

    Attributes
    ----------
    name
        First part of its triples.
    triple
        LLVM's triple of its boards.
    uname, runs_on
        Linux's name of such a machine (`uname -m`), and the names of all machines that run its programs.
    debian, docker
        Debian's and Docker's names of the architecture.
    edge_rt
        Name of its edge-rt; None if edge-rt does not support it.
    host_class
        The board class with the facts for a host of this architecture; None if it cannot be `local`.
    host_cpu
        LLVM's cpu for such a host; None: the highest feature level serves as cpu.
    features
        LLVM's name -> Linux's name of the CPU features that generated code can use.
    levels
        Feature levels for the records' keys, in ascending order: each runs the code of those before it.
    products
        Instructions that multiply and accumulate other numbers than float32: our name of it -> LLVM's
        feature that a CPU needs. Features that only convert (f16c, and fp16 of Arm's VFP) do not count.
    slow_flops
        Lower bound of the speed of working code on one core in FLOP/s: an estimate, for deadlines.
    lld
        lld's name of the output format (`-m`).
    zig_target
        Zig's name of the target.
    gcc
        The C compiler that drives GNU ld on a host of another architecture.
    elf_machine, bits, elf_flags
        `e_machine` in pyelftools' words, the file's class, and `e_flags`.
    page
        Alignment in bytes that load segments must have: the largest page of such Linux kernels
        (Android: 16 KiB, https://developer.android.com/guide/practices/page-sizes).
    glibc_base
        Version node of the first glibc of this architecture
        (glibc, `sysdeps/unix/sysv/linux/*/shlib-versions`); None for Android, whose symbols a
        library names without versions.
    helpers
        Whether LLVM calls functions of the Arm run-time ABI, which must be linked into libraries.
    qemu
        Its emulator, None if none is supported.
    """

    name: str
    triple: str
    uname: str
    runs_on: tuple[str, ...]
    debian: str
    docker: str
    edge_rt: str | None
    host_class: str | None = None
    host_cpu: str | None = None
    features: Mapping[str, str]
    levels: tuple[Level, ...]
    products: Mapping[str, str] = field(default_factory=dict)
    slow_flops: float
    lld: str
    zig_target: str
    gcc: str
    elf_machine: str
    bits: int
    elf_flags: int = 0
    page: int
    glibc_base: str | None
    helpers: bool = False
    qemu: Qemu | None = None

    @property
    def half(self) -> str | None:
        """LLVM's feature for arithmetic in float16; None: cores of the architecture have no such feature."""
        return self.products.get("half")

    @property
    def integers(self) -> tuple[str, ...]:
        """LLVM's features for products of 8-bit integers, the best first."""
        return tuple(self.products[name] for name in ("dot", "dot-avx", "matrix") if name in self.products)

    @property
    def hard_float(self) -> bool:
        """Whether objects and libraries must say that they pass floats in VFP registers."""
        return bool(self.elf_flags & EF_ARM_ABI_FLOAT_HARD)

    @property
    def android(self) -> bool:
        """Whether it is Android on that architecture."""
        return self.glibc_base is None

    def linux_features(self, llvm_features: Iterable[str]) -> tuple[str, ...]:
        """Return Linux's names, sorted, of the `llvm_features` that generated code can use."""
        return tuple(sorted(self.features[name] for name in llvm_features if name in self.features))

    def products_of(self, flags: Collection[str]) -> frozenset[str]:
        """Return the names of the `products` that a CPU with these of Linux's flags has."""
        return frozenset(name for name, needed in self.products.items() if self.features[needed] in flags)

    def level(self, flags: Iterable[str]) -> str:
        """Return the highest feature level whose flags are all in `flags`."""
        there = frozenset(flags)
        return next(level.name for level in reversed(self.levels) if level.flags <= there)


# Columns of the table: LLVM's and Linux's names of CPU features, and x86-64's feature levels.

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
    slow_flops=8e7,
    lld="aarch64linux",
    zig_target="aarch64-linux-gnu",
    gcc="aarch64-linux-gnu-gcc",
    elf_machine="EM_AARCH64",
    bits=64,
    page=0x10000,
    glibc_base="2.17",
    qemu=Qemu("aarch64", "ld-linux-aarch64.so.1", "libc6-arm64-cross"),
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
    qemu=Qemu("arm", "ld-linux-armhf.so.3", "libc6-armhf-cross"),
)

LINUX = {row.name: row for row in (_X86_64, _AARCH64, _ARMV7A)}
"""Architectures on which edge-rt runs, by the first part of the triple."""
ARCHITECTURES = {**LINUX, "aarch64-android": _AARCH64_ANDROID}
"""Architectures for which networks are built."""


def architecture_of(triple: str) -> Architecture | None:
    """Return the row of a triple's architecture, None if it is unknown."""
    name, _, rest = triple.partition("-")
    return ARCHITECTURES.get(f"{name}-android" if "android" in rest else name)


def of_debian(name: str) -> Architecture:
    """Return the row with this Debian name, such as arm64."""
    return next(row for row in LINUX.values() if row.debian == name)


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

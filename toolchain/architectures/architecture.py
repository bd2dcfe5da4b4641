"""The columns of the table of architectures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

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

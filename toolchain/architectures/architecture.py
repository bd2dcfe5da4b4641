"""The columns of the table of architectures: facts about an architecture that need no TVM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Seam = Literal["machine"]
"""Columns that are code of an upper room; each is a `CodeColumn` there (`architectures/table.py`)."""
SEAMS: tuple[Seam, ...] = get_args(Seam)

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
        `sysroot_<name>` of toolchain.toml.
    sysroot
        Folder in which Debian installs the architecture's C library.
    loader
        File name of the dynamic loader, which every program needs.
    package
        Debian's package of the C library.
    like
        Cores that no qemu of today's distributions knows -> a core with the same instructions that it does.
    """

    name: str
    sysroot: str
    loader: str
    package: str
    like: Mapping[str, str] = field(default_factory=dict)

    @property
    def program(self) -> str:
        """File name of the emulator."""
        return f"qemu-{self.name}-static"

    @property
    def program_key(self) -> str:
        """Key of toolchain.toml for the emulator."""
        return f"qemu_{self.name}"

    @property
    def sysroot_key(self) -> str:
        """Key of toolchain.toml for the folder of the C library."""
        return f"sysroot_{self.name}"


@dataclass(frozen=True)
class Rates:
    """Speeds of one core while it runs a network, by which code is chosen without records.

    The defaults, taken for every machine, are fitted to twelve layers of ResNet-18 and VGG-16, measured in
    the network with AVX-512: of 100 ways to compute them the estimates are right within 10 % for 63, within
    15 % for 77, and the choices they lead to are on average 1.6 % slower than the fastest.

    Attributes
    ----------
    flops
        Float32 operations per second, for products of values in registers.
    values
        Values per second that winograd's transforms read or write.
    stream
        Bytes per second of weights that no cache holds, read while products are summed up.
    again
        Speed-up of re-reading data evicted from L2 when a cache behind it holds the data (1.0: there is
        none).
    exposed, exposed_of_passes
        Computing and prefetching weights overlap incompletely: the time is the longer of the two and this
        share of the shorter. The first is for sums computed in one loop, the second for sums that are
        stored and read back between several loops.
    held, spilled
        Most values for which winograd's transforms stay in registers, and the slowdown of larger ones.
    peak
        Float32 operations per second of the core for which these speeds were found, in registers and with
        nothing else to do; 0: not known.
    source
        Where these speeds are from: the core on which they were measured, or what was modelled.
    cache
        Bytes of the core's L2 for estimates; 0: the machine's `cache`.
    probe
        Name of the float32 products that reach `peak` in the answer of `edge-rt probe`; empty: it measures
        none.
    """

    flops: float
    values: float
    stream: float
    again: float = 1.0
    exposed: float = 0.4
    exposed_of_passes: float = 0.2
    held: int = 36
    spilled: float = 3.0
    peak: float = 0.0
    source: str = ""
    cache: int = 0
    probe: str = ""


@dataclass(frozen=True)
class Microarchitecture:
    """The difference between cores of one family and the core for which a level's rates were found.

    Attributes
    ----------
    reached
        Share of the peak that convolutions reach with their operands in the caches.
    spilled
        Slowdown of winograd's transforms that do not fit the registers.
    """

    reached: float
    spilled: float


@dataclass(frozen=True)
class FastestCore:
    """Upper bounds of the float32 operations per second of one core, two for each multiply-add.

    Attributes
    ----------
    other
        Bound of a core that neither mapping has.
    levels, cpus
        Bounds by feature level, and by LLVM's cpu.
    """

    other: float
    levels: Mapping[str, float] = field(default_factory=dict)
    cpus: Mapping[str, float] = field(default_factory=dict)

    def of(self, cpu: str, level: str) -> float:
        """Return the bound of a core, given its cpu and the feature level of a record's key."""
        base = level.partition("+")[0]
        return self.levels.get(base) or self.cpus.get(cpu) or self.other


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture, combined with the operating system if that matters (Android).

    A column without a default is needed; docs/howto/add-an-architecture.md tells how to find each.

    Attributes
    ----------
    name
        First part of its triples; with `-android` behind it if it is Android.
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
        Feature levels for the records' keys, in ascending order: each runs the code of those before it. The
        first needs no flags.
    products
        Instructions that multiply and accumulate other numbers than float32: our name of it -> LLVM's
        feature that a CPU needs. Features that only convert (f16c, and fp16 of Arm's VFP) do not count.
    target_options
        Options of TVM's LLVM target that the triple does not imply.
    nan_bounds
        Whether LLVM's `maximum` and `minimum`, which propagate NaN, are one instruction for vectors.
    multiply_add_features
        LLVM features for functions that multiply and add floats, which are then compiled anew so that LLVM
        chains the two (`lowering/objects/export.py`); empty: they are compiled once.
    rates
        Speeds by which code is chosen, for each feature level.
    microarchitectures
        Corrections of measured speeds by maker and family of the CPU, as `edge-rt probe` reports them.
    fastest
        Upper bounds of what a core computes.
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
    code
        For a plugin: `module:attribute` of its code, by column of `SEAMS`.
    """

    name: str
    triple: str
    uname: str
    runs_on: tuple[str, ...]
    debian: str
    docker: str
    edge_rt: str | None = None
    host_class: str | None = None
    host_cpu: str | None = None
    features: Mapping[str, str]
    levels: tuple[Level, ...]
    products: Mapping[str, str] = field(default_factory=dict)
    target_options: Mapping[str, object] = field(default_factory=dict)
    nan_bounds: bool
    multiply_add_features: str = ""
    rates: Mapping[str, Rates]
    microarchitectures: Mapping[str, Microarchitecture] = field(default_factory=dict)
    fastest: FastestCore
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
    code: Mapping[Seam, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [level.name for level in self.levels]
        if not self.levels or self.levels[0].flags:
            raise ValueError(f"architecture {self.name}: levels: the first one must need no flags")
        if set(names) != set(self.rates):
            raise ValueError(
                f"architecture {self.name}: rates: there must be speeds for each level: {', '.join(names)}"
            )
        if unknown := sorted({*self.products.values()} - set(self.features)):
            raise ValueError(
                f"architecture {self.name}: products: {', '.join(unknown)} is missing in features"
            )
        if unknown := sorted(set(self.code) - set(SEAMS)):
            raise ValueError(
                f"architecture {self.name}: code: unknown column {', '.join(unknown)}; the columns are: "
                f"{', '.join(SEAMS)}"
            )

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
        present = frozenset(flags)
        return next(level.name for level in reversed(self.levels) if level.flags <= present)

    def rates_of(self, cpu: str) -> Rates | None:
        """Return the speeds by which code for a cpu of a class is chosen.

        None if there are several levels and the cpu is not named after one of them.
        """
        return self.rates[self.levels[0].name] if len(self.levels) == 1 else self.rates.get(cpu)

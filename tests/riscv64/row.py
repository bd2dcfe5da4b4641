"""The row of 64-bit RISC-V with vectors: an architecture that nothing of the package knows."""

from __future__ import annotations

from toolchain.architectures.architecture import Architecture, FastestCore, Level, Qemu, Rates

_MODEL = "model: one vector of four FMAs a cycle at 1.6 GHz, an rk3399's share of the peak and memory"
_RATES = Rates(12.2e9, 1.6e9, 4e9, peak=12.8e9, source=_MODEL, probe="rvv")

RISCV64 = Architecture(
    name="riscv64",
    triple="riscv64-unknown-linux-gnu",
    uname="riscv64",
    runs_on=("riscv64",),
    debian="riscv64",
    docker="riscv64",
    # Linux: arch/riscv/kernel/cpufeature.c; LLVM: lib/Target/RISCV/RISCVFeatures.td. LLVM's `v` is zve64d and
    # registers of at least 128 bits; TVM makes scalable loops of all vectors if it is on, which are slow.
    features={"zve64d": "v", "zvfh": "zvfh", "zba": "zba", "zbb": "zbb"},
    levels=(Level("rv64gc"), Level("rv64gcv", frozenset({"v"}))),
    products={"half": "zvfh"},
    target_options={"mabi": "lp64d"},
    nan_bounds=False,  # vfmax returns the number if one of both is NaN
    rates={"rv64gc": _RATES, "rv64gcv": _RATES},
    fastest=FastestCore(32 * 3e9),
    slow_flops=4e7,
    lld="elf64lriscv",
    zig_target="riscv64-linux-gnu",
    gcc="riscv64-linux-gnu-gcc",
    elf_machine="EM_RISCV",
    bits=64,
    elf_flags=0x5,  # EF_RISCV_RVC, EF_RISCV_FLOAT_ABI_DOUBLE
    page=0x1000,
    glibc_base="2.27",
    qemu=Qemu("riscv64", "/usr/riscv64-linux-gnu", "ld-linux-riscv64-lp64d.so.1", "libc6-riscv64-cross"),
    code={"machine": "tests.riscv64.machine:rvv"},
)

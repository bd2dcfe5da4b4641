"""Columns of the table: LLVM's and Linux's names of CPU features, and x86-64's feature levels."""

from __future__ import annotations

from toolchain.architectures.architecture import Level

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

"""LLVM's names of CPU features beside Linux's, for the features that generated code can use."""

from __future__ import annotations

# Linux: Documentation/arch/arm64/elf_hwcaps.rst; LLVM: lib/Target/AArch64/AArch64Features.td.
# Features that only intrinsics reach (crc, aes, sha2) are left out: no network needs them.
_AARCH64 = {
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
# Linux: arch/arm/kernel/setup.c; LLVM: lib/Target/ARM/ARMFeatures.td. What Linux has no name for
# (fp16, the conversions of VFPv3) is left out.
_ARMV7A = {
    "neon": "neon",
    "vfp3": "vfpv3",
    "vfp4": "vfpv4",
    "d32": "vfpd32",
    "hwdiv-arm": "idiva",
    "hwdiv": "idivt",
}
# Linux: arch/x86/include/asm/cpufeatures.h; LLVM: lib/Target/X86/X86.td.
_X86_64 = {
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
LINUX_NAMES: dict[str, dict[str, str]] = {"aarch64": _AARCH64, "armv7a": _ARMV7A, "x86_64": _X86_64}


def linux_features(arch: str, llvm_features: frozenset[str]) -> tuple[str, ...]:
    """Return Linux's names, sorted, of those `llvm_features` that generated code can use."""
    names = LINUX_NAMES[arch]
    return tuple(sorted(names[feature] for feature in llvm_features if feature in names))

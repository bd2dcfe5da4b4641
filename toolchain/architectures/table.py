"""The table of architectures. A new one is a row here, and its emulator's two keys in `Settings`."""

from __future__ import annotations

from dataclasses import replace

from toolchain.architectures import features
from toolchain.architectures.architecture import (
    EF_ARM_ABI_FLOAT_HARD,
    EF_ARM_EABI_5,
    Architecture,
    Level,
    Qemu,
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
    features=features.X86_64,
    levels=features.X86_LEVELS,
    products=features.X86_64_PRODUCTS,
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
    features=features.AARCH64,
    levels=(Level("neon"),),
    products=features.AARCH64_PRODUCTS,
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
    features=features.ARMV7A,
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

"""Objects and libraries made for real, by zig's assembler and linker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from toolchain.architectures.architecture import Architecture
from toolchain.architectures.table import ARCHITECTURES
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.profiles import Profile, load_profile

CLASSES = {
    "aarch64": "rk3399",
    "aarch64-android": "android-arm64",
    "armv7a": "pynq",
    "x86_64": "x86_64",
}
GLIBC = [name for name in CLASSES if "android" not in name]
CALL = {"aarch64": "bl {}", "armv7a": "bl {}", "x86_64": "call {}@PLT"}
RETURN = {"aarch64": "ret", "armv7a": "bx lr", "x86_64": "ret"}
# What says that floats are passed in VFP registers.
HEAD = {"armv7a": ".arm\n.eabi_attribute 28, 1\n"}


@dataclass(frozen=True)
class Workshop:
    """What one architecture's objects and libraries are made with."""

    folder: Path
    profile: Profile
    arch: Architecture

    def assemble(self, text: str, name: str = "lib0.o", head: str | None = None) -> Path:
        object_file = self.folder / name
        head = HEAD.get(self.profile.arch, "") if head is None else head
        object_file.write_bytes(assembled(self.arch.zig_target, head + text))
        return object_file

    def function(self, name: str, *called: str) -> str:
        """Return the text of a function that calls others."""
        lines = [CALL[self.profile.arch].format(symbol) for symbol in called] + [RETURN[self.profile.arch]]
        return f".text\n.globl {name}\n.type {name},%function\n{name}:\n" + "\n".join(lines) + "\n"

    @property
    def word(self) -> str:
        """The directive that lays down an address."""
        return {32: ".long", 64: ".quad"}[self.arch.bits]

    def objects(self, *called: str) -> list[Path]:
        """Return objects such as TVM writes: code, and constants in a symbol."""
        constants = ".globl __tvm_ffi__library_bin\n__tvm_ffi__library_bin: .quad 8, 42\n"
        workspace = ".weak __TVMBackendAllocWorkspace\n__TVMBackendAllocWorkspace: .quad 0\n"
        return [
            self.assemble(self.function("__tvm_ffi_f", *called)),
            self.assemble(f".section .rodata\n{constants}.data\n{workspace}", "devc.o"),
        ]

    def lld(self, *arguments: object, name: str = "bad.so") -> Path:
        out = self.folder / name
        zig("ld.lld", "-m", self.arch.lld, "-shared", *arguments, "-o", out)
        return out


@cache
def assembled(target: str, text: str) -> bytes:
    """Return the object of a text, which most tests have in common."""
    with TemporaryDirectory() as folder:
        source, object_file = Path(folder, "source.s"), Path(folder, "made.o")
        source.write_text(text + '\n.section .note.GNU-stack,"",%progbits\n')
        zig("cc", "-target", target, "-c", source, "-o", object_file)
        return object_file.read_bytes()


def zig(*arguments: object) -> None:
    done = run_zig([str(argument) for argument in arguments], 120, zig_cache_environment())
    assert done.returncode == 0, done.output


@pytest.fixture
def workshop_for(tmp_path: Path) -> Callable[[str], Workshop]:
    def make(arch: str) -> Workshop:
        folder = tmp_path / arch
        folder.mkdir()
        return Workshop(folder, load_profile(CLASSES[arch]), ARCHITECTURES[arch])

    return make


@pytest.fixture(params=GLIBC)
def glibc_workshop(request: pytest.FixtureRequest, workshop_for: Callable[[str], Workshop]) -> Workshop:
    return workshop_for(request.param)


@pytest.fixture
def android(workshop_for: Callable[[str], Workshop]) -> Workshop:
    return workshop_for("aarch64-android")


@pytest.fixture(params=CLASSES)
def workshop(request: pytest.FixtureRequest, workshop_for: Callable[[str], Workshop]) -> Workshop:
    return workshop_for(request.param)

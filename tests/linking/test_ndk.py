"""`--linker ndk`, driven with a stand-in for an NDK's clang: no NDK was run.

The stand-in has the driver's options and does with them what clang does for Android, as its source
says (`clang/lib/Driver/ToolChains/{Linux,Gnu}.cpp`): it hands `-Xlinker` on to lld, after options of
its own which ours must outdo.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.linking.conftest import Workshop
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.linking import ZigLinker, check_library, linker_named
from toolchain.linking.zig import zig_program

CALLED = ("expf", "memcpy", "TVMFFIErrorSetRaisedFromCStrParts")


def stand_in_for(python: str, zig: str) -> str:
    """Return the program of a compiler driver that knows `--target`, `-Xlinker` and `-nostdlib`."""
    return f"""#!{python}
import os, sys
given = [a for a in sys.argv[1:] if a != "-Xlinker" and not a.startswith("--target=")]
assert "-nostdlib" in given, "would bring start-up code and libc++ along"
given.remove("-nostdlib")
own = ["-z", "now", "-z", "relro", "-z", "max-page-size=4096", "--hash-style=gnu", "--build-id",
       "--eh-frame-hdr", "-m", "aarch64linux"]
os.execv({zig!r}, ["zig", "ld.lld", *own, *given])
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "stand-in-for-aarch64-linux-android21-clang++"
    program.write_text(stand_in_for(sys.executable, str(zig_program())))
    program.chmod(0o755)
    monkeypatch.setenv("TVM_NDK_CC", str(program))
    return program


@pytest.mark.usefixtures("stand_in")
def test_library_linked_by_the_ndk_passes(android: Workshop) -> None:
    objects = android.objects(*CALLED)
    out, other = android.folder / "ndk.so", android.folder / "zig.so"
    linker_named("ndk").link(objects, out, android.profile)
    check_library(out, android.profile, objects)
    ZigLinker().link(objects, other, android.profile)
    assert out.read_bytes() == other.read_bytes()  # the stand-in's lld is zig's


@pytest.mark.usefixtures("stand_in")
def test_undefined_symbol_is_named(android: Workshop) -> None:
    with pytest.raises(ToolchainError, match=r"undefined symbols in .*: dgemm_; neither the C library"):
        linker_named("ndk").link(android.objects("dgemm_"), android.folder / "lib.so", android.profile)


@pytest.mark.usefixtures("stand_in")
def test_linker_errors_are_reported(android: Workshop, workshop_for: Callable[[str], Workshop]) -> None:
    with pytest.raises(ToolchainError, match=r"cannot link .*lib\.so:\n(.*\n)*.*is incompatible"):
        linker_named("ndk").link(workshop_for("x86_64").objects(), android.folder / "lib.so", android.profile)


def test_missing_ndk_is_reported(android: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    for unset in (
        lambda: monkeypatch.delenv("TVM_NDK_CC", raising=False),
        lambda: monkeypatch.setenv("TVM_NDK_CC", ""),
    ):
        unset()
        with pytest.raises(MissingError, match="--linker ndk: TVM_NDK_CC is not set") as caught:
            linker_named("ndk").check(android.profile)
        assert "aarch64-linux-android21-clang++" in caught.value.hint and "--linker zig" in caught.value.hint


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable"])
def test_refuses_a_variable_that_names_no_program(
    android: Workshop, stand_in: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "not executable":
        stand_in.chmod(stat.S_IRUSR)
    else:
        monkeypatch.setenv("TVM_NDK_CC", str(stand_in.parent if kind == "folder" else stand_in) + "/")
    with pytest.raises(UsageError, match=r"--linker ndk: TVM_NDK_CC=\S+ is not a program") as caught:
        linker_named("ndk").check(android.profile)
    assert str(stand_in.parent) in caught.value.message


@pytest.mark.usefixtures("stand_in")
def test_refuses_boards_without_android(glibc_workshop: Workshop) -> None:
    name = glibc_workshop.profile.name
    with pytest.raises(UsageError, match=f"--linker ndk: it links for Android, but board class {name} is"):
        linker_named("ndk").link(
            glibc_workshop.objects(), glibc_workshop.folder / "l.so", glibc_workshop.profile
        )

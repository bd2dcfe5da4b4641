"""What lld makes of objects, and how it says why it cannot."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection

from tests.linking.conftest import Workshop
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.linking import ZigLinker, check_library
from toolchain.linking.linker import GLIBC_LIBC, GLIBC_LIBM

pytestmark = pytest.mark.slow

CALLED = ("expf", "memcpy", "TVMFFIErrorSetRaisedFromCStrParts")


def test_this_host_loads_and_calls_a_library(workshop_for: Callable[[str], Workshop]) -> None:
    workshop = workshop_for(platform.machine())
    jump = {"x86_64": "jmp expf@PLT", "aarch64": "b expf"}[workshop.profile.arch]
    object_file = workshop.assemble(
        f".text\n.globl __tvm_ffi_exp\n.type __tvm_ffi_exp,%function\n__tvm_ffi_exp: {jump}\n"
    )
    out = workshop.folder / "exp.so"
    ZigLinker().link([object_file], out, workshop.profile)
    check_library(out, workshop.profile, [object_file])
    function = ctypes.CDLL(str(out)).__tvm_ffi_exp
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    assert function(1.0) == pytest.approx(2.718281828, rel=1e-6)


def test_symbol_versions_exist_in_the_oldest_glibc(glibc_workshop: Workshop) -> None:
    workshop = glibc_workshop
    objects = workshop.objects("exp", "expf", "memcpy", "fmodf")
    out = workshop.folder / "lib.so"
    ZigLinker().link(objects, out, workshop.profile)
    with out.open("rb") as file:
        needs = next(s for s in ELFFile(file).iter_sections() if isinstance(s, GNUVerNeedSection))
        nodes_of = {library.name: {node.name for node in nodes} for library, nodes in needs.iter_versions()}
    base = f"GLIBC_{workshop.arch.glibc_base}"
    memcpy = "GLIBC_2.14" if workshop.profile.arch == "x86_64" else base
    assert nodes_of == {GLIBC_LIBM: {base, "GLIBC_2.27"}, GLIBC_LIBC: {memcpy}}


def test_android_libraries_have_a_soname_and_no_versions(android: Workshop) -> None:
    objects = android.objects("exp", "expf", "ldexp", "memcpy")
    out = android.folder / "lib.so"
    ZigLinker().link(objects, out, android.profile)
    with out.open("rb") as file:
        elf = ELFFile(file)
        dynamic = elf.get_section_by_name(".dynamic")
        assert [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] == ["libm.so", "libc.so"]
        (name,) = (tag.soname for tag in dynamic.iter_tags("DT_SONAME"))
        assert not any(isinstance(s, GNUVerNeedSection | GNUVerSymSection) for s in elf.iter_sections())
        assert elf.get_section_by_name(".hash") and elf.get_section_by_name(".gnu.hash")
        pages = {s["p_align"] for s in elf.iter_segments("PT_LOAD")}
        # The relocated part is made read-only: it must end with a page of the largest size.
        (relro,) = elf.iter_segments("PT_GNU_RELRO")
    assert pages == {0x4000}
    assert (relro["p_vaddr"] + relro["p_memsz"]) % 0x4000 == 0
    other = android.folder / "other.so"
    ZigLinker().link(android.objects("exp"), other, android.profile)
    with other.open("rb") as file:
        assert next(ELFFile(file).get_section_by_name(".dynamic").iter_tags("DT_SONAME")).soname != name


def test_linking_is_reproducible(workshop: Workshop) -> None:
    objects = workshop.objects(*CALLED)
    first = workshop.folder / "a.so"
    ZigLinker().link(objects, first, workshop.profile)
    elsewhere = workshop.folder / "else where"
    elsewhere.mkdir()
    copies = [Path(shutil.copy(path, elsewhere)) for path in objects]
    program = (
        "import sys; from pathlib import Path; from toolchain.linking import ZigLinker;"
        "from toolchain.profiles import load_profile;"
        "ZigLinker().link([Path(p) for p in sys.argv[3:]], Path(sys.argv[1]), load_profile(sys.argv[2]))"
    )
    second = elsewhere / "b.so"
    arguments = [second, workshop.profile.name, *copies]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, timeout=60)
    assert first.read_bytes() == second.read_bytes()


def test_linking_is_fast(workshop: Workshop) -> None:
    objects = workshop.objects(*CALLED)
    out = workshop.folder / "lib.so"
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        ZigLinker().link(objects, out, workshop.profile)
        check_library(out, workshop.profile, objects)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5  # 0.02 on an idle machine; tuning links hundreds of candidates


def test_undefined_symbol_is_named(workshop: Workshop) -> None:
    objects = workshop.objects("expf", "dgemm_", "puts")
    with pytest.raises(ToolchainError, match=r"undefined symbols in .*: dgemm_, puts; ") as caught:
        ZigLinker().link(objects, workshop.folder / "lib.so", workshop.profile)
    assert caught.value.exit_code == 1 and not (workshop.folder / "lib.so").exists()


def test_symbols_resolve_between_objects(workshop: Workshop) -> None:
    objects = [
        *workshop.objects("__tvm_ffi_own"),
        workshop.assemble(workshop.function("__tvm_ffi_own"), "own.o"),
    ]
    ZigLinker().link(objects, workshop.folder / "lib.so", workshop.profile)
    check_library(workshop.folder / "lib.so", workshop.profile, objects)


def test_linker_errors_are_reported(workshop: Workshop) -> None:
    objects = workshop.objects()
    twice = workshop.assemble(workshop.function("__tvm_ffi_f"), "twice.o")
    with pytest.raises(ToolchainError, match="duplicate symbol: __tvm_ffi_f"):
        ZigLinker().link([*objects, twice], workshop.folder / "lib.so", workshop.profile)
    assert not (workshop.folder / "lib.so").exists()


def test_refuses_foreign_and_invalid_objects(workshop_for: Callable[[str], Workshop]) -> None:
    arm, pc = workshop_for("aarch64"), workshop_for("x86_64")
    with pytest.raises(ToolchainError, match=r"lib0\.o is incompatible"):
        ZigLinker().link(pc.objects(), arm.folder / "lib.so", arm.profile)
    (arm.folder / "text.o").write_text("no object")
    with pytest.raises(ToolchainError, match=r"text\.o is not an ELF object"):
        ZigLinker().link([arm.folder / "text.o"], arm.folder / "lib.so", arm.profile)
    with pytest.raises(ToolchainError, match=r"cannot read the object .*none\.o"):
        ZigLinker().link([arm.folder / "none.o"], arm.folder / "lib.so", arm.profile)


def test_unwritable_output_is_reported(workshop: Workshop) -> None:
    with pytest.raises(ToolchainError, match="cannot link"):
        ZigLinker().link(workshop.objects(), workshop.folder / "none" / "lib.so", workshop.profile)


def test_missing_zig_is_reported(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = workshop.objects()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingError, match="zig") as caught:
        ZigLinker().link(objects, workshop.folder / "lib.so", workshop.profile)
    assert "pip install ziglang" in caught.value.hint


def test_refuses_unknown_architectures(workshop_for: Callable[[str], Workshop]) -> None:
    workshop = workshop_for("aarch64")
    other = workshop.profile.model_copy(update={"triple": "riscv64-unknown-linux-gnu"})
    with pytest.raises(UsageError, match="riscv64") as caught:
        ZigLinker().link(workshop.objects(), workshop.folder / "lib.so", other)
    assert "aarch64, aarch64-android, armv7a, x86_64" in caught.value.hint

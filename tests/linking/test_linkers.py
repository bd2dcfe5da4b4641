"""What linkers make, how they fail, and what their stubs say about the C library."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection, GNUVerSymSection

from toolchain.architectures.table import ARCHITECTURES
from toolchain.boards.emulation.qemu import user_modes
from toolchain.configuration import settings as config
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.linking import ZigLinker, check_library, linker_named
from toolchain.linking.glibc import LIBC, LIBM, version_key, versions_for
from toolchain.linking.ndk import NdkLinker
from toolchain.linking.process import run
from toolchain.linking.stubs import ensure_stubs
from toolchain.linking.zig import zig_program

pytestmark = pytest.mark.slow

CALLED = ("expf", "memcpy", "TVMFFIErrorSetRaisedFromCStrParts")


def test_a_library_that_this_host_loads_and_calls(workshop_for):
    workshop = workshop_for(platform.machine())
    jump = {"x86_64": "jmp expf@PLT", "aarch64": "b expf"}[workshop.profile.arch]
    made = workshop.assemble(
        f".text\n.globl __tvm_ffi_exp\n.type __tvm_ffi_exp,%function\n__tvm_ffi_exp: {jump}\n"
    )
    out = workshop.folder / "exp.so"
    ZigLinker().link([made], out, workshop.profile)
    check_library(out, workshop.profile, [made])
    function = ctypes.CDLL(str(out)).__tvm_ffi_exp
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    assert function(1.0) == pytest.approx(2.718281828, rel=1e-6)


def test_it_asks_for_versions_that_the_floor_has(glibc_workshop):
    workshop = glibc_workshop
    objects = workshop.objects("exp", "expf", "memcpy", "fmodf")
    out = workshop.folder / "lib.so"
    ZigLinker().link(objects, out, workshop.profile)
    with out.open("rb") as file:
        needs = next(s for s in ELFFile(file).iter_sections() if isinstance(s, GNUVerNeedSection))
        found = {library.name: {node.name for node in nodes} for library, nodes in needs.iter_versions()}
    base = f"GLIBC_{workshop.arch.glibc_base}"
    memcpy = "GLIBC_2.14" if workshop.profile.arch == "x86_64" else base
    assert found == {LIBM: {base, "GLIBC_2.27"}, LIBC: {memcpy}}


def test_android_gets_names_without_versions_and_one_of_its_own(android):
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


def test_bytes_do_not_depend_on_folder_name_process_or_linker_run(workshop):
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


def test_stubs_are_made_once(glibc_workshop, tmp_path, monkeypatch):
    workshop = glibc_workshop
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    config.configuration.cache_clear()
    first = ensure_stubs(workshop.arch, "2.27")
    times = [path.stat().st_mtime_ns for path in first]
    assert [path.name for path in first] == [LIBM, LIBC]
    assert ensure_stubs(workshop.arch, "2.27") == first
    assert [path.stat().st_mtime_ns for path in first] == times
    assert set(ensure_stubs(workshop.arch, "2.31")).isdisjoint(first)
    assert sorted(path.name for path in first[0].parent.iterdir()) == [LIBC, LIBM]


def test_linking_is_fast(workshop):
    objects = workshop.objects(*CALLED)
    out = workshop.folder / "lib.so"
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        ZigLinker().link(objects, out, workshop.profile)
        check_library(out, workshop.profile, objects)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5  # 0.02 on an idle machine; tuning links hundreds of candidates


def real_library(arch: str, name: str) -> Path:
    if arch == platform.machine():
        ctypes.CDLL(name)
        maps = Path("/proc/self/maps").read_text()
        return Path(re.search(rf"/\S*/{re.escape(name)}", maps).group())
    return user_modes()[arch].sysroot / "lib" / name


def real_versions(library: Path) -> dict[str, set[str]]:
    with library.open("rb") as file:
        elf = ELFFile(file)
        definitions = next(s for s in elf.iter_sections() if isinstance(s, GNUVerDefSection))
        numbers = next(s for s in elf.iter_sections() if isinstance(s, GNUVerSymSection))
        names = {node["vd_ndx"]: next(aux).name for node, aux in definitions.iter_versions()}
        found: dict[str, set[str]] = {}
        for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            number = numbers.get_symbol(index)["ndx"]
            if symbol["st_shndx"] != "SHN_UNDEF" and isinstance(number, int):
                found.setdefault(symbol.name, set()).add(names[number & 0x7FFF].removeprefix("GLIBC_"))
        return found


@pytest.mark.parametrize("library", [LIBM, LIBC])
@pytest.mark.parametrize("arch", sorted({"aarch64", "armv7a", platform.machine()}))
def test_versions_are_those_of_a_real_c_library(arch, library):
    real = real_versions(real_library(arch, library))
    base = ARCHITECTURES[arch].glibc_base
    for floor in ("2.17", "2.22", "2.23", "2.25", "2.27", "2.28", "2.29", "2.31", "2.32", "2.35"):
        for name, version in versions_for(library, base, floor).items():
            offered = [node for node in real[name] if version_key(node) <= version_key(floor)]
            assert version == max(offered, key=version_key), (name, floor)
    assert "roundevenf" not in versions_for(LIBM, base, "2.24")


def test_a_symbol_that_nothing_offers_is_named(workshop):
    objects = workshop.objects("expf", "dgemm_", "puts")
    with pytest.raises(ToolchainError, match=r"undefined symbols in .*: dgemm_, puts; ") as caught:
        ZigLinker().link(objects, workshop.folder / "lib.so", workshop.profile)
    assert caught.value.exit_code == 1 and not (workshop.folder / "lib.so").exists()


def test_an_object_that_defines_what_another_wants(workshop):
    objects = [
        *workshop.objects("__tvm_ffi_own"),
        workshop.assemble(workshop.function("__tvm_ffi_own"), "own.o"),
    ]
    ZigLinker().link(objects, workshop.folder / "lib.so", workshop.profile)
    check_library(workshop.folder / "lib.so", workshop.profile, objects)


def test_the_linker_says_why_it_cannot(workshop):
    objects = workshop.objects()
    twice = workshop.assemble(workshop.function("__tvm_ffi_f"), "twice.o")
    with pytest.raises(ToolchainError, match="duplicate symbol: __tvm_ffi_f"):
        ZigLinker().link([*objects, twice], workshop.folder / "lib.so", workshop.profile)
    assert not (workshop.folder / "lib.so").exists()


def test_objects_of_another_machine_or_none(workshop_for):
    arm, pc = workshop_for("aarch64"), workshop_for("x86_64")
    with pytest.raises(ToolchainError, match=r"lib0\.o is incompatible"):
        ZigLinker().link(pc.objects(), arm.folder / "lib.so", arm.profile)
    (arm.folder / "text.o").write_text("no object")
    with pytest.raises(ToolchainError, match=r"text\.o is not an ELF object"):
        ZigLinker().link([arm.folder / "text.o"], arm.folder / "lib.so", arm.profile)
    with pytest.raises(ToolchainError, match=r"cannot read the object .*none\.o"):
        ZigLinker().link([arm.folder / "none.o"], arm.folder / "lib.so", arm.profile)


def test_an_output_that_cannot_be_written(workshop):
    with pytest.raises(ToolchainError, match="cannot link"):
        ZigLinker().link(workshop.objects(), workshop.folder / "none" / "lib.so", workshop.profile)


def test_a_linker_that_hangs_is_ended_with_its_children():
    start = time.monotonic()
    with pytest.raises(ToolchainError, match=r"sh had not ended after 0\.3 s"):
        run(["sh", "-c", "sleep 77.125 & sleep 77.125"], 0.3)
    assert time.monotonic() - start < 60
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"77.125" in line for line in lines)


def test_zig_is_missing(workshop, monkeypatch):
    objects = workshop.objects()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingError, match="zig") as caught:
        ZigLinker().link(objects, workshop.folder / "lib.so", workshop.profile)
    assert "pip install ziglang" in caught.value.hint


def test_names_of_linkers():
    assert isinstance(linker_named("zig"), ZigLinker)
    assert isinstance(linker_named("ndk"), NdkLinker)
    with pytest.raises(UsageError, match="--linker mold") as caught:
        linker_named("mold")
    assert "zig, gcc, ndk" in caught.value.hint


def test_an_architecture_that_is_not_known(workshop_for):
    workshop = workshop_for("aarch64")
    other = workshop.profile.model_copy(update={"triple": "riscv64-unknown-linux-gnu"})
    with pytest.raises(UsageError, match="riscv64") as caught:
        ZigLinker().link(workshop.objects(), workshop.folder / "lib.so", other)
    assert "aarch64, aarch64-android, armv7a, x86_64" in caught.value.hint


def test_gcc_is_missing(workshop, monkeypatch, tmp_path):
    objects = workshop.objects()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="--linker gcc") as caught:
        linker_named("gcc").link(objects, workshop.folder / "lib.so", workshop.profile)
    assert "gcc-" in caught.value.hint


def test_a_gcc_makes_a_library_that_passes(workshop, monkeypatch, tmp_path):
    """A compiler driver of gcc's name and options is on the PATH: zig's, which every host has."""
    objects = workshop.objects(*CALLED)
    target = workshop.arch.zig_target.replace("android", "gnu")  # zig links for Android by lld alone
    driver = tmp_path / workshop.arch.gcc
    driver.write_text(f'#!/bin/sh\nexec {zig_program()} cc -O2 -target {target} "$@"\n')
    driver.chmod(0o755)
    cache = str(config.cache_dir() / "zig")
    for name, value in {
        "PATH": f"{tmp_path}:/bin",
        "ZIG_GLOBAL_CACHE_DIR": cache,
        "ZIG_LOCAL_CACHE_DIR": cache,
    }.items():
        monkeypatch.setenv(name, value)
    out = workshop.folder / "lib.so"
    linker_named("gcc").link(objects, out, workshop.profile)
    check_library(out, workshop.profile, objects)
    with pytest.raises(ToolchainError, match="dgemm_"):
        linker_named("gcc").link(workshop.objects("dgemm_"), out, workshop.profile)

"""What was compiled: where it can start, and what it costs to have."""

from __future__ import annotations

from pathlib import Path

import pytest
from elftools.elf.constants import P_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_DT_FLAGS, ENUM_DT_FLAGS_1

from tests.rpc.peers import running_tracker
from tests.runtime.conftest import Edge
from toolchain.linking.zig import run_zig
from toolchain.runtime.fingerprint import GLIBC_FLOOR, NATIVE

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

# Of glibc alone; the loader is named by what uses thread-local storage.
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}
LOADERS = {
    "x86_64": "ld-linux-x86-64.so.2",
    "aarch64": "ld-linux-aarch64.so.1",
    "armv7": "ld-linux-armhf.so.3",
}


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def test_program_needs_old_glibc_only(edge: Edge) -> None:
    with Path(edge.command[-1]).open("rb") as file:
        elf = ELFFile(file)
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        assert needed <= LIBRARIES | {LOADERS[edge.arch]}
        versions = {
            entry.name
            for _, entries in elf.get_section_by_name(".gnu.version_r").iter_versions()
            for entry in entries
        }
        assert versions
        assert all(name.startswith("GLIBC_") for name in versions)
        assert max(version(name[len("GLIBC_") :]) for name in versions) <= version(GLIBC_FLOOR)


def test_program_uses_the_systems_libc_and_libm(edge: Edge) -> None:
    """zig's own copies of these functions are several times slower, and weak symbols win quietly."""
    with Path(edge.command[-1]).open("rb") as file:
        symbols = list(ELFFile(file).get_section_by_name(".dynsym").iter_symbols())
        imported = {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
        assert {"memcpy", "memset", "memmove", "logf", "malloc"} <= imported
        offered = {symbol.name for symbol in symbols} - imported
        assert not {name for name in offered if name.startswith(("mem", "exp", "log", "str"))}
        assert {"TVMFFIFunctionCall", "TVMBackendParallelLaunch", "__gnu_h2f_ieee"} <= offered


def test_program_is_small(edge: Edge) -> None:
    """Decision 102 costs 24 KB while sessions take both calls and plans."""
    assert Path(edge.command[-1]).stat().st_size < 4_330_000


def test_an_idle_server_is_small(native: Edge, tmp_path: Path) -> None:
    with running_tracker() as port, native.serving(tmp_path, port) as process:
        status = Path(f"/proc/{process.pid}/status").read_text()
        (resident,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    assert int(resident) < 8 * 1024


def test_the_header_is_plain_c(tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text('#include "edge_rt.h"\nint main(void) { return edge_open(0, 0) != 0; }\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{NATIVE}"]
    target = ["-target", "x86_64-linux-gnu.2.27"]
    ended = run_zig(["cc", *target, *flags, "-c", str(source), "-o", str(tmp_path / "user.o")], 60)
    assert ended.returncode == 0, ended.output


def test_hardening_of_the_program(edge: Edge) -> None:
    program = Path(edge.command[-1])
    for path in (program, program.with_name("libedge.so")):
        with path.open("rb") as file:
            elf = ELFFile(file)
            assert elf["e_type"] == "ET_DYN", path  # position-independent
            segments = {segment["p_type"]: segment["p_flags"] for segment in elf.iter_segments()}
            assert "PT_GNU_RELRO" in segments
            assert segments["PT_GNU_STACK"] & P_FLAGS.PF_X == 0
            assert not [s for s in elf.iter_segments("PT_LOAD") if s["p_flags"] & 3 == 3]  # written and run
            tags = {
                tag.entry.d_tag: tag.entry.d_val for tag in elf.get_section_by_name(".dynamic").iter_tags()
            }
            assert "DT_TEXTREL" not in tags
            assert tags["DT_FLAGS"] & ENUM_DT_FLAGS["DF_BIND_NOW"]
            assert tags["DT_FLAGS_1"] & ENUM_DT_FLAGS_1["DF_1_NOW"]
            assert path != program or tags["DT_FLAGS_1"] & ENUM_DT_FLAGS_1["DF_1_PIE"]
            imported = {s.name for s in elf.get_section_by_name(".dynsym").iter_symbols()}
            assert {"__stack_chk_fail", "__memcpy_chk", "__vsnprintf_chk"} <= imported

"""Version nodes of symbols: those of real C libraries."""

from __future__ import annotations

import ctypes
import platform
import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection

from toolchain.architectures.table import ARCHITECTURES
from toolchain.boards.emulation.qemu import user_modes
from toolchain.linking.linker import GLIBC_LIBC, GLIBC_LIBM, version_key, versions_for

pytestmark = pytest.mark.slow


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
        nodes: dict[str, set[str]] = {}
        for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            number = numbers.get_symbol(index)["ndx"]
            if symbol["st_shndx"] != "SHN_UNDEF" and isinstance(number, int):
                nodes.setdefault(symbol.name, set()).add(names[number & 0x7FFF].removeprefix("GLIBC_"))
        return nodes


@pytest.mark.parametrize("library", [GLIBC_LIBM, GLIBC_LIBC])
@pytest.mark.parametrize("arch", sorted({"aarch64", "armv7a", platform.machine()}))
def test_versions_match_real_c_libraries(arch: str, library: str) -> None:
    real = real_versions(real_library(arch, library))
    base = ARCHITECTURES[arch].glibc_base
    for floor in ("2.17", "2.22", "2.23", "2.25", "2.27", "2.28", "2.29", "2.31", "2.32", "2.35"):
        for name, version in versions_for(library, base, floor).items():
            offered = [node for node in real[name] if version_key(node) <= version_key(floor)]
            assert version == max(offered, key=version_key), (name, floor)
    assert "roundevenf" not in versions_for(GLIBC_LIBM, base, "2.24")

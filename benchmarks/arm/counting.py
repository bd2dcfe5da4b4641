"""The instructions that a program for Arm executes between two marks, under qemu with our plugin."""

from __future__ import annotations

import bisect
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from benchmarks.arm.failure import ArmError, run

_HERE = Path(__file__).parent
_QEMU = {"aarch64": "qemu-aarch64", "armv7": "qemu-arm"}  # Debian's qemu-user; the static ones take no plugin


@dataclass(frozen=True)
class Block:
    """A piece of straight code, and how often it ran."""

    file: str
    address: int
    instructions: int
    multiply_accumulates: int
    runs: int


@dataclass(frozen=True)
class Count:
    """Executed instructions."""

    instructions: int
    multiply_accumulates: int

    def __add__(self, other: Count) -> Count:
        return Count(
            self.instructions + other.instructions, self.multiply_accumulates + other.multiply_accumulates
        )


NOTHING = Count(0, 0)


def build_plugin(folder: Path) -> Path:
    """Compile the plugin for this host into a folder."""
    made = folder / "count.so"
    flags = (
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-sanitize=all",
    )
    run([sys.executable, "-m", "ziglang", "cc", *flags, "-o", made, _HERE / "count.c"])
    return made


def count(
    plugin: Path, arch: str, cpu: str, root: Path, argv: Sequence[str | Path], **env: str
) -> list[Block]:
    """Run a program of `arch` (aarch64, armv7) and return what it executed between its marks.

    Parameters
    ----------
    root
        A folder with that architecture's system, in which the program finds its libraries.

    Raises
    ------
    ArmError
        There is no such emulator, the program failed, or it made no marks.
    """
    out = plugin.with_name("counted.txt")
    out.unlink(missing_ok=True)
    run([_QEMU[arch], "-cpu", cpu, "-L", root, "-plugin", f"{plugin},out={out}", *argv], **env)
    if not out.exists():
        raise ArmError(f"{Path(argv[0]).name} ran to its end, but never closed 0x770002, the second mark")
    return list(_parsed(out.read_text()))


def _parsed(text: str) -> Iterator[Block]:
    maps, _, counted = text.partition("\n\n")
    areas = sorted(_areas(maps))
    starts = [start for start, *_ in areas]
    for line in counted.splitlines():
        address, instructions, fused, runs = line.split()
        host = int(address, 16)
        start, end, offset, file = areas[bisect.bisect_right(starts, host) - 1]
        inside = start <= host < end
        yield Block(
            file if inside else "",
            host - start + offset if inside else host,
            int(instructions),
            int(fused),
            int(runs),
        )


def _areas(maps: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield start, end, offset in the file, and file of each line of Linux's `maps`."""
    for line in maps.splitlines():
        area, _mode, offset, _device, _inode, *file = line.split(maxsplit=5)
        start, end = (int(part, 16) for part in area.split("-"))
        yield start, end, int(offset, 16), file[0] if file else ""


def total(blocks: Sequence[Block]) -> Count:
    """Return the sum of all blocks."""
    return Count(
        sum(block.instructions * block.runs for block in blocks),
        sum(block.multiply_accumulates * block.runs for block in blocks),
    )


def by_file(blocks: Sequence[Block]) -> dict[str, Count]:
    """Return what was executed of each file, by its name, most first."""
    found: Counter[str] = Counter()
    sums: dict[str, Count] = {}
    for block in blocks:
        name = Path(block.file).name or "(no file)"
        sums[name] = sums.get(name, NOTHING) + total([block])
        found[name] = sums[name].instructions
    return {name: sums[name] for name, _ in found.most_common()}


def placed(blocks: Sequence[Block], library: Path, compiled: Path) -> dict[int, Count]:
    """Return what a library executed, by the addresses in the object that its code was linked from.

    Parameters
    ----------
    compiled
        The object with the code, which has the names that the library lacks: of functions not exported.
    """
    with library.open("rb") as file:
        elf = ELFFile(file)
        # Address minus offset in the file is the same for all code: it is one segment.
        shift = next(s["p_vaddr"] - s["p_offset"] for s in elf.iter_segments() if s["p_flags"] & 1)
        exported = {name: address for address, name in _functions(elf, ".dynsym")}
    shift -= next(exported[name] - address for address, name in _code(compiled)[0] if name in exported)
    sums: dict[int, Count] = {}
    for block in blocks:
        if block.file == str(library):
            address = block.address + shift
            sums[address] = sums.get(address, NOTHING) + total([block])
    return sums


def by_function(blocks: Sequence[Block], library: Path, compiled: Path) -> dict[str, Count]:
    """Return what was executed of each of a library's functions, most first.

    The bodies of parallel loops have no names: they go by that of the function before, to which they belong.
    """
    entries, size = _code(compiled)
    starts = [address for address, _ in entries]
    sums: dict[str, Count] = {}
    for address, count_here in placed(blocks, library, compiled).items():
        inside = starts[0] <= address < size
        # On armv7 divisions are linked to it.
        name = entries[bisect.bisect_right(starts, address) - 1][1] if inside else "(not in the object)"
        sums[name] = sums.get(name, NOTHING) + count_here
    return dict(sorted(sums.items(), key=lambda item: -item[1].instructions))


def _code(compiled: Path) -> tuple[list[tuple[int, str]], int]:
    """Return address and name of each function of an object, in order, and the bytes of all."""
    with compiled.open("rb") as file:
        elf = ELFFile(file)
        text = elf.get_section_index(".text")
        return sorted(_functions(elf, ".symtab", text)), elf.get_section(text)["sh_size"]


def _functions(elf: ELFFile, table: str, section: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield address and name of the functions that are defined in a file, or in one section of it."""
    for symbol in elf.get_section_by_name(table).iter_symbols():
        where = symbol["st_shndx"]
        if symbol["st_info"]["type"] == "STT_FUNC" and where != "SHN_UNDEF" and section in (None, where):
            yield symbol["st_value"] & ~1, symbol.name  # the last bit says Thumb

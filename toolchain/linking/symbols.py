"""Reads the defined and undefined symbols of object files."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from toolchain.errors import ToolchainError

# The runtime on the board defines these for every library that it loads.
RUNTIME_PREFIXES = ("TVMFFI", "TVMBackend")
# Functions of the run-time ABI of armv7, which are linked into the library.
HELPER_PREFIX = "__aeabi_"
# The linker defines the first, which x86-64 objects refer to. armv7 objects refer to the others, readers of
# unwinding tables, but no relocation uses them and nothing is unwound.
_NO_CALLS = frozenset({"_GLOBAL_OFFSET_TABLE_", *(f"__aeabi_unwind_cpp_pr{n}" for n in range(3))})
_STB_LOCAL, _SHT_SYMTAB = 0, 2
_CLASS_64, _LITTLE = 2, 1


@dataclass(frozen=True)
class Symbols:
    """Global symbols: the defined and the undefined ones."""

    defined: frozenset[str]
    undefined: frozenset[str]


def split_symbols(symbols: Iterable[Any]) -> Symbols:
    """Sort pyelftools' symbols into defined and undefined ones, without local symbols."""
    defined: set[str] = set()
    undefined: set[str] = set()
    for symbol in symbols:
        if symbol.name and symbol["st_info"]["bind"] != "STB_LOCAL":
            is_undefined = symbol["st_shndx"] == "SHN_UNDEF"
            (undefined if is_undefined else defined).add(symbol.name)
    return Symbols(frozenset(defined), frozenset(undefined - defined - _NO_CALLS))


def object_symbols(objects: Sequence[Path]) -> Symbols:
    """Return the symbols that `objects` together define, and those still undefined.

    Raises
    ------
    ToolchainError
        An object cannot be read or is not an ELF object.
    """
    defined: frozenset[str] = frozenset()
    undefined: frozenset[str] = frozenset()
    for path in objects:
        try:
            status = path.stat()
            symbols = _symbols_of(path, status.st_ino, status.st_mtime_ns, status.st_size)
        except OSError as error:
            raise ToolchainError(
                f"cannot read the object {path}: {error.strerror}", "build it again"
            ) from error
        except Exception as error:  # a broken file raises many kinds of errors
            raise ToolchainError(f"{path} is not an ELF object: {error}", "build it again") from error
        defined |= symbols.defined
        undefined |= symbols.undefined
    return Symbols(defined, undefined - defined)


@lru_cache(maxsize=4096)
def _symbols_of(path: Path, *_version: int) -> Symbols:
    """Return an object's symbols, cached: a network has a hundred objects, and several steps need them."""
    with path.open("rb") as file:
        wide, order, names, table = _symbol_table(file)
    defined: set[str] = set()
    undefined: set[str] = set()
    # Elf64_Sym: name, info, other, section, value, size; Elf32_Sym: name, value, size, info, other, section.
    for symbol in struct.iter_unpack(order + ("IBBHQQ" if wide else "IIIBBH"), table):
        info, section = (symbol[1], symbol[3]) if wide else (symbol[3], symbol[5])
        name = names[symbol[0] : names.index(b"\0", symbol[0])].decode()
        if name and info >> 4 != _STB_LOCAL:
            (defined if section else undefined).add(name)
    return Symbols(frozenset(defined), frozenset(undefined - defined - _NO_CALLS))


def _symbol_table(file: BinaryIO) -> tuple[bool, str, bytes, bytes]:
    """Return whether an object has 64 bits, its byte order, its string table and its symbol table.

    Both tables may be empty. pyelftools takes 2 ms for an object, and a network has a hundred.
    """
    start = file.read(16)
    if start[:4] != b"\x7fELF":
        raise ValueError("it does not begin with the ELF magic number")
    wide, order = start[4] == _CLASS_64, "<" if start[5] == _LITTLE else ">"
    # Elf64_Ehdr or Elf32_Ehdr from the type on; we need the offset, size and number of section headers.
    header = _unpacked(file, 16, order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
    offset, size, count = header[5], header[10], header[11]
    # name, type, flags, address, offset, size, link …
    section = order + ("IIQQQQI" if wide else "IIIIIII")
    sections = [_unpacked(file, offset + number * size, section) for number in range(count)]
    for _name, kind, _flags, _address, place, length, link in sections:
        if kind == _SHT_SYMTAB:
            names = sections[link]
            return wide, order, _bytes(file, names[4], names[5]), _bytes(file, place, length)
    return wide, order, b"", b""


def _unpacked(file: BinaryIO, offset: int, form: str) -> tuple[int, ...]:
    return struct.unpack(form, _bytes(file, offset, struct.calcsize(form)))


def _bytes(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    data = file.read(size)
    if len(data) != size:
        raise ValueError("it is truncated")
    return data

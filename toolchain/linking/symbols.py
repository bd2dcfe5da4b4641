"""Which symbols objects define and which they ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from toolchain.errors import ToolchainError

# The board's program offers these to every library that it opens.
RUNTIME_PREFIXES = ("TVMFFI", "TVMBackend")
# The run-time ABI of armv7; a library brings those functions along.
HELPER_PREFIX = "__aeabi_"
# x86-64 objects name the first, which the linker makes. armv7 objects name the others, readers of
# their unwinding tables, without a relocation that anything would look up: nothing is unwound there.
_NO_CALLS = frozenset({"_GLOBAL_OFFSET_TABLE_", *(f"__aeabi_unwind_cpp_pr{n}" for n in range(3))})


@dataclass(frozen=True)
class Symbols:
    """Names that are visible outside: defined ones, and those wanted from elsewhere."""

    defined: frozenset[str]
    undefined: frozenset[str]


def split_symbols(symbols: Iterable[Any]) -> Symbols:
    """Sort pyelftools' symbols into defined and undefined ones, locals left out."""
    defined: set[str] = set()
    undefined: set[str] = set()
    for symbol in symbols:
        if symbol.name and symbol["st_info"]["bind"] != "STB_LOCAL":
            wanted = symbol["st_shndx"] == "SHN_UNDEF"
            (undefined if wanted else defined).add(symbol.name)
    return Symbols(frozenset(defined), frozenset(undefined - defined - _NO_CALLS))


def object_symbols(objects: Sequence[Path]) -> Symbols:
    """Return what `objects` together define, and what they still want.

    Raises
    ------
    ToolchainError
        One of them cannot be read or is no ELF object.
    """
    defined: frozenset[str] = frozenset()
    undefined: frozenset[str] = frozenset()
    for path in objects:
        try:
            with path.open("rb") as file:
                table = ELFFile(file).get_section_by_name(".symtab")
                found = split_symbols(table.iter_symbols() if table else ())
        except OSError as error:
            raise ToolchainError(
                f"cannot read the object {path}: {error.strerror}", "build it again"
            ) from error
        except Exception as error:  # pyelftools meets broken files with errors of many kinds
            raise ToolchainError(f"{path} is not an ELF object: {error}", "build it again") from error
        defined |= found.defined
        undefined |= found.undefined
    return Symbols(defined, undefined - defined)

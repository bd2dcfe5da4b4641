"""Links objects into a library and checks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection

from toolchain.architectures.architecture import Architecture
from toolchain.errors import ToolchainError
from toolchain.linking.linker import CLibrary, Linker, c_library, version_key
from toolchain.linking.lld import ZigLinker
from toolchain.linking.symbols import HELPER_PREFIX, RUNTIME_PREFIXES, Symbols, object_symbols, split_symbols
from toolchain.profiles import Profile

# The ELF gate: checks a linked library before a board may load it, whatever linker made it.

# Kernels, and the function pointers that the runtime fills in after loading a library.
_EXPORTS = ("__tvm_ffi_", "__TVMBackend", "__TVMFFI")
_EXPORTED_HELPERS = frozenset({"__truncsfhf2", "__extendhfsf2"})  # LLVM's conversions from and to float16
# Tags that would run code at load time or load other files.
_FORBIDDEN_TAGS = {
    "DT_TEXTREL": "code that is changed while it is loaded",
    "DT_RPATH": "a search path of its own",
    "DT_RUNPATH": "a search path of its own",
    "DT_INIT": "start-up code",
    "DT_FINI": "exit code",
    "DT_INIT_ARRAY": "start-up code",
    "DT_FINI_ARRAY": "exit code",
    "DT_PREINIT_ARRAY": "start-up code",
    "DT_AUDIT": "an auditing library",
    "DT_DEPAUDIT": "an auditing library",
    "DT_FILTER": "a library in its place",
    "DT_AUXILIARY": "a library in its place",
}
_DF_TEXTREL, _DF_BIND_NOW, _DF_1_NOW = 0x4, 0x8, 0x1
_PF_X, _PF_W = 0x1, 0x2


@dataclass(frozen=True)
class _Facts:
    """Facts from the ELF headers of a library."""

    elf: ELFFile
    size: int
    tags: dict[str, int]
    needed: tuple[str, ...]
    symbols: Symbols
    versions: dict[str, str | None]  # undefined symbol -> version node, None for none
    version_nodes: tuple[tuple[str, str], ...]  # (library, node)


def check_library(path: Path, profile: Profile, objects: Sequence[Path]) -> None:
    """Refuse a library that boards of `profile` could not load, or that has symbols its objects lack.

    Parameters
    ----------
    path
        The linked library.
    profile
        The board class: its architecture and its oldest C library count.
    objects
        The linked objects: the library must have exactly their undefined symbols.

    Raises
    ------
    ToolchainError
        Lists every violation, with what was expected.
    """
    expected = object_symbols(objects)
    try:
        with path.open("rb") as file:
            violations = list(_violations(_read(ELFFile(file), path), profile, expected))
        if profile.architecture.hard_float:
            violations += _float_abi((path, *objects))
    except OSError as error:
        raise ToolchainError(f"cannot read {path}: {error.strerror}", "build it again") from error
    except Exception as error:  # pyelftools raises many kinds of errors for broken files
        raise ToolchainError(f"{path} is not a whole ELF library: {error}", "build it again") from error
    if violations:
        listed = "".join(f"\n  - {violation}" for violation in violations)
        raise ToolchainError(
            f"{path} is not fit for board class {profile.name}:{listed}", "link it with --linker zig"
        )


def _read(elf: ELFFile, path: Path) -> _Facts:
    size = path.stat().st_size
    ends = [elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"]]
    ends += [segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments()]
    if max(ends) > size:
        raise ValueError(f"it is truncated: it has {size} bytes, its headers say {max(ends)}")
    dynamic = next((s for s in elf.iter_segments() if isinstance(s, DynamicSegment)), None)
    table = elf.get_section_by_name(".dynsym")
    if dynamic is None or table is None:
        raise ValueError("it has no dynamic section or no symbols: it may be an object or a static program")
    tags = list(dynamic.iter_tags())
    nodes: dict[int, tuple[str, str]] = {}
    by_symbol: dict[str, str | None] = {}
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for library, auxiliaries in section.iter_versions():
                nodes.update({a["vna_other"]: (library.name, a.name) for a in auxiliaries})
    numbers = next((s for s in elf.iter_sections() if isinstance(s, GNUVerSymSection)), None)
    for index, symbol in enumerate(table.iter_symbols()):
        number = numbers.get_symbol(index)["ndx"] if numbers else None
        if symbol["st_shndx"] == "SHN_UNDEF":
            by_symbol[symbol.name] = nodes[number][1] if number in nodes else None
    return _Facts(
        elf=elf,
        size=size,
        tags={str(tag.entry.d_tag): tag.entry.d_val for tag in tags},
        needed=tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
        symbols=split_symbols(table.iter_symbols()),
        versions=by_symbol,
        version_nodes=tuple(nodes.values()),
    )


def _violations(facts: _Facts, profile: Profile, expected: Symbols) -> Iterator[str]:
    arch = profile.architecture
    libraries = c_library(arch, profile.glibc)
    yield from _header(facts.elf, arch)
    yield from _segments(facts.elf, arch.page)
    yield from _dynamic(facts, libraries)
    if arch.android and "DT_SONAME" not in facts.tags:
        yield "it has no DT_SONAME, expected one, as Android's loader does"
    yield from _unversioned(facts) if profile.glibc is None else _versions(facts, libraries, profile.glibc)
    yield from _symbols(facts, libraries, expected)


def _header(elf: ELFFile, arch: Architecture) -> Iterator[str]:
    expected = {"e_machine": arch.elf_machine, "e_type": "ET_DYN"}
    for field, value in expected.items():
        if elf[field] != value:
            yield f"{field} is {elf[field]}, expected {value}"
    if elf["e_flags"] != arch.elf_flags:
        yield f"e_flags is {elf['e_flags']:#x}, expected {arch.elf_flags:#x}"
    if elf.elfclass != arch.bits or not elf.little_endian:
        order = "little" if elf.little_endian else "big"
        yield f"it is a {elf.elfclass}-bit {order}-endian file, expected {arch.bits}-bit little-endian"


def _float_abi(files: Sequence[Path]) -> Iterator[str]:
    # Linkers mix objects of both float ABIs and mark the result as hard float.
    for path in files:
        with path.open("rb") as file:
            section = ELFFile(file).get_section_by_name(".ARM.attributes")
            parts = section.iter_subsections() if section else ()
            attributes = {
                a.tag: a.value
                for part in parts
                for p in part.iter_subsubsections()
                for a in p.iter_attributes()
            }
        if (value := attributes.get("TAG_ABI_VFP_ARGS", 0)) != 1:
            yield f"Tag_ABI_VFP_args of {path.name} is {value}, expected 1: floats in VFP registers"


def _segments(elf: ELFFile, page: int) -> Iterator[str]:
    stack = None
    for segment in elf.iter_segments():
        kind, flags = segment["p_type"], segment["p_flags"]
        if kind == "PT_LOAD":
            start = f"the segment at {segment['p_vaddr']:#x}"
            if segment["p_align"] % page or not segment["p_align"]:
                yield f"{start} is aligned to {segment['p_align']:#x}, expected {page:#x}"
            if flags & _PF_W and flags & _PF_X:
                yield f"{start} is writable and executable, expected one of them at most"
        elif kind in ("PT_INTERP", "PT_TLS"):
            yield f"it has a {kind} segment, expected none"
        elif kind == "PT_GNU_STACK":
            stack = flags
    if stack is None or stack & _PF_X:
        yield "it asks for an executable stack, expected PT_GNU_STACK without execution"


def _dynamic(facts: _Facts, libraries: CLibrary) -> Iterator[str]:
    flags = facts.tags.get("DT_FLAGS", 0)
    for tag, what in _FORBIDDEN_TAGS.items():
        if tag in facts.tags or (tag == "DT_TEXTREL" and flags & _DF_TEXTREL):
            yield f"it has {tag} ({what}), expected none"
    now = "DT_BIND_NOW" in facts.tags or flags & _DF_BIND_NOW or facts.tags.get("DT_FLAGS_1", 0) & _DF_1_NOW
    if not now:
        yield "its symbols are bound at the first call, expected at load time (-z now)"
    for name in facts.needed:
        if name not in libraries:
            yield f"it needs {name}, expected none but {', '.join(libraries)}"
    for library, names in libraries.items():
        used = sorted(facts.symbols.undefined.intersection(names))
        if used and library not in facts.needed:
            yield f"it calls {', '.join(used)} but does not need {library}, expected it as NEEDED"


def _users(facts: _Facts, node: str) -> str:
    return ", ".join(sorted(name for name, version in facts.versions.items() if version == node))


def _unversioned(facts: _Facts) -> Iterator[str]:
    # Older Android releases do not support symbol versions, and none has glibc's.
    for library, node in facts.version_nodes:
        yield f"it needs {node} of {library} for {_users(facts, node)}, expected no versions on Android"


def _versions(facts: _Facts, libraries: CLibrary, floor: str) -> Iterator[str]:
    newest = version_key(floor)
    for library, node in facts.version_nodes:
        number = node.removeprefix("GLIBC_")
        known = number != node and number.replace(".", "").isdigit()
        if not known or version_key(number) > newest:
            yield f"it needs {node} of {library} for {_users(facts, node)}, expected GLIBC_{floor} at most"
    of_glibc = facts.symbols.undefined.intersection(n for names in libraries.values() for n in names)
    if unversioned := sorted(name for name in of_glibc if facts.versions[name] is None):
        yield f"it calls {', '.join(unversioned)} of any version, expected versions of glibc"


def _symbols(facts: _Facts, libraries: CLibrary, expected: Symbols) -> Iterator[str]:
    symbols = facts.symbols
    called = symbols.undefined.difference(*libraries.values())
    foreign = sorted(name for name in called if not name.startswith(RUNTIME_PREFIXES))
    if foreign:
        yield f"it calls {', '.join(foreign)}, expected symbols of the runtime, libm and mem* alone"
    exports = sorted(n for n in symbols.defined if not n.startswith(_EXPORTS) and n not in _EXPORTED_HELPERS)
    if exports:
        yield f"it exports {', '.join(exports)}, expected __tvm_ffi_*, __TVMBackend* and __TVMFFI* alone"
    captured = sorted(n for n in expected.undefined - symbols.undefined if not n.startswith(HELPER_PREFIX))
    if captured:
        names = ", ".join(captured)
        yield f"its objects call {names} but it does not: something took their place, expected the board's"
    if added := sorted(symbols.undefined - expected.undefined - set(foreign)):
        yield f"it calls {', '.join(added)}, expected no symbols but those that its objects call"


def link_library(
    objects: Sequence[Path], library: Path, profile: Profile, linker: Linker | None = None
) -> None:
    """Link objects in this order; raise an error if boards could not load the result.

    Parameters
    ----------
    library
        The file to write.
    profile
        The class of the boards.
    linker
        The linker to use; None for zig's.

    Raises
    ------
    ToolchainError
        The linker failed, or the library fails its check.
    """
    (linker or ZigLinker()).link(objects, library, profile)
    check_library(library, profile, objects)

"""lld as shipped with zig: the default linker."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from toolchain.architectures.architecture import Architecture
from toolchain.configuration import settings as config
from toolchain.errors import ToolchainError
from toolchain.files import atomic
from toolchain.linking.linker import (
    DEADLINE_S,
    c_library,
    check_undefined,
    ensure_helpers,
    flags_for,
    report,
    version_key,
)
from toolchain.linking.zig import run_zig, zig_cache_environment, zig_program
from toolchain.profiles import Profile

# Stub libraries: they define the symbols of the board's C library, without any code.
#
# Linking against stubs instead of a real glibc gives every symbol the version of the oldest board, whatever
# is installed here, and never adds code to the library. The stubs for Android have no symbol versions and
# need no NDK.

_DEADLINE_S = 120.0  # usually takes 0.1 s; a cold disk must read zig (180 MB) first


def assembly(symbols: Iterable[str]) -> str:
    """Return an assembly text that defines every symbol as an empty function."""
    lines = [f".globl {name}\n.type {name},%function\n{name}:" for name in sorted(symbols)]
    return "\n".join([".text", *lines, '.section .note.GNU-stack,"",%progbits', ""])


def version_script(versions: Mapping[str, str | None]) -> str:
    """Return a linker version script that gives every symbol its version; empty if none has one."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for name, version in versions.items():
        if version is not None:
            nodes[version].append(name)
    return "".join(
        f"GLIBC_{version} {{ {' '.join(f'{name};' for name in sorted(nodes[version]))} }};\n"
        for version in sorted(nodes, key=version_key)
    )


def ensure_stubs(arch: Architecture, glibc: str | None) -> tuple[Path, ...]:
    """Return stubs of libm and libc for boards with at least this glibc, or for Android.

    They are made once and cached.

    Parameters
    ----------
    arch
        The architecture of the stubs.
    glibc
        The oldest glibc that must load the linked library, such as `2.27`; None for Android.

    Raises
    ------
    ToolchainError
        The stubs could not be made.
    """
    tables = c_library(arch, glibc)
    text = "".join(name + assembly(table) + version_script(table) for name, table in tables.items())
    key = hashlib.sha256(f"1 {arch} {text}".encode()).hexdigest()[:16]
    folder = config.cache_dir() / "stubs" / f"{arch.zig_target}-{glibc or 'any'}-{key}"
    if not folder.is_dir():
        with atomic.replacing_folder(folder) as temporary:
            for name, table in tables.items():
                _make(temporary / name, table, arch)
    return tuple(folder / name for name in tables)


def _make(library: Path, table: Mapping[str, str | None], arch: Architecture) -> None:
    source, script, object_file = (library.with_suffix(suffix) for suffix in (".s", ".map", ".o"))
    source.write_text(assembly(table))
    script.write_text(version_script(table))
    naming = ["-soname", library.name, *(["--version-script", str(script)] if script.read_text() else [])]
    for arguments in (
        ["cc", "-target", arch.zig_target, "-c", str(source), "-o", str(object_file)],
        ["ld.lld", "-m", arch.lld, "-shared", "-s", *naming, "-o", str(library), str(object_file)],
    ):
        done = run_zig(arguments, _DEADLINE_S, zig_cache_environment())
        if done.returncode != 0:
            raise ToolchainError(
                f"cannot make the stub of {library.name} for {arch.zig_target}: {done.last_lines()}",
                "toolchain cache prune, then run the same command again",
            )
    for left in (source, script, object_file):
        left.unlink()


class ZigLinker:
    """Links by `zig ld.lld` against our stubs: gives the same bytes on every host, in about 0.02 s."""

    def check(self, profile: Profile) -> None:
        """Raise an error if zig is not installed or the architecture is unknown."""
        _ = profile.architecture
        zig_program()

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        ToolchainError
            The linker failed; the message has its output.
        MissingError
            zig is not installed.
        """
        arch = profile.architecture
        check_undefined(objects, profile)
        flags = ["-m", arch.lld, *flags_for(profile, objects)]
        files = (out, *objects, *ensure_helpers(arch, objects), *ensure_stubs(arch, profile.glibc))
        report(out, run_zig(["ld.lld", *flags, "-o", *map(str, files)], DEADLINE_S))

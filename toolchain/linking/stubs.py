"""Libraries of names: what the linker needs to know of the board's C library, and no more.

Linking against them instead of a real glibc gives every symbol the version that the oldest board
has, whatever is installed here, and never pulls anything into the library. Those for Android have
no versions, and need no NDK.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from toolchain.architectures.architecture import Architecture
from toolchain.configuration import settings as config
from toolchain.errors import ToolchainError
from toolchain.files import atomic
from toolchain.linking.c_library import c_library
from toolchain.linking.glibc import version_key
from toolchain.linking.zig import run_zig, zig_cache_environment

_DEADLINE_S = 120.0  # about 0.1 s each; a cold disk has to read zig (180 MB) first


def assembly(symbols: Iterable[str]) -> str:
    """Return a program text that defines every symbol as a function of no length."""
    lines = [f".globl {name}\n.type {name},%function\n{name}:" for name in sorted(symbols)]
    return "\n".join([".text", *lines, '.section .note.GNU-stack,"",%progbits', ""])


def version_script(versions: Mapping[str, str | None]) -> str:
    """Return the linker's script that puts every symbol into its version node; empty if none has one."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for name, version in versions.items():
        if version is not None:
            nodes[version].append(name)
    return "".join(
        f"GLIBC_{version} {{ {' '.join(f'{name};' for name in sorted(nodes[version]))} }};\n"
        for version in sorted(nodes, key=version_key)
    )


def ensure_stubs(arch: Architecture, glibc: str | None) -> tuple[Path, ...]:
    """Return stub libm and libc for boards with that glibc or a newer one, or for Android.

    They are made in the cache once.

    Parameters
    ----------
    arch
        Whose instructions and first glibc.
    glibc
        The oldest C library that must load what is linked, such as `2.27`; None for Android.

    Raises
    ------
    ToolchainError
        They could not be made.
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
    source, script, made = (library.with_suffix(suffix) for suffix in (".s", ".map", ".o"))
    source.write_text(assembly(table))
    script.write_text(version_script(table))
    naming = ["-soname", library.name, *(["--version-script", str(script)] if script.read_text() else [])]
    for arguments in (
        ["cc", "-target", arch.zig_target, "-c", str(source), "-o", str(made)],
        ["ld.lld", "-m", arch.lld, "-shared", "-s", *naming, "-o", str(library), str(made)],
    ):
        done = run_zig(arguments, _DEADLINE_S, zig_cache_environment())
        if done.returncode != 0:
            raise ToolchainError(
                f"cannot make the stub of {library.name} for {arch.zig_target}: {done.last_lines()}",
                "toolchain cache prune, then run the same command again",
            )
    for left in (source, script, made):
        left.unlink()

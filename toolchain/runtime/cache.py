"""A content-addressed cache of compiled runtimes, and the comparison of an entry with its sources.

An interrupted build leaves no entry.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from toolchain.architectures.table import LINUX
from toolchain.configuration import settings as config
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.files.atomic import replacing_folder
from toolchain.files.scratch import scratch_folder
from toolchain.profiles import Profile
from toolchain.runtime.compile import LIBRARY, PROGRAM, compile_runtime
from toolchain.runtime.fingerprint import NATIVE, digest_sources, expected_fingerprint
from toolchain.runtime.wheel import (
    FILES,
    digest_of,
    installed_folder,
    package_of,
    pinned_digests,
    read_compiled,
)

ARCHES = tuple(row.edge_rt for row in LINUX.values() if row.edge_rt)
"""Architectures that edge-rt can be compiled for."""
# To wait for another process that compiles the same; its own deadline is shorter.
_LOCK_S = 2400.0


@dataclass(frozen=True)
class Runtime:
    """A compiled edge-rt.

    Attributes
    ----------
    program
        The executable, for `arch`.
    library
        `libedge.so`: the runtime without a command line, for the user's own programs.
    header
        The library's C interface.
    fingerprint
        Digest of the sources; the same for every architecture.
    arch
        The architecture that it runs on.
    """

    program: Path
    library: Path
    header: Path
    fingerprint: str
    arch: str


def arch_of(profile: Profile) -> str:
    """Return the architecture of the edge-rt for boards of a class.

    Raises
    ------
    UsageError
        edge-rt does not run on such boards.
    """
    arch = profile.architecture.edge_rt
    if arch is None:
        system = "Android" if profile.android else profile.arch
        raise UsageError(
            f"board class {profile.name}: edge-rt does not run on {system}; networks are built and checked "
            "here, and run by your own app",
            f"toolchain build MODEL --board {profile.name} -o DIR",
        )
    return arch


def ensure_runtime(arch: str, *, progress: Callable[[str], None] | None = None) -> Runtime:
    """Return edge-rt for an architecture; on a cache miss take it from its wheel, or compile it.

    Compiling takes a minute or two. A wheel is used if its files have the digests of this version.

    Parameters
    ----------
    arch
        The architecture to run on.
    progress
        Called with a line of text from time to time while it is compiled.

    Raises
    ------
    UsageError
        edge-rt does not support this architecture.
    MissingError
        zig, CMake, ninja or TVM's packages are not installed.
    ToolchainError
        The compiler failed, the disk is full, or another process has been compiling it too long.
    """
    runtime = planned_runtime(arch)
    folder = runtime.program.parent
    if not _is_whole(folder):
        _compile_once(folder.parent, folder, arch, progress or (lambda _: None))
    return runtime


def planned_runtime(arch: str) -> Runtime:
    """Return edge-rt for an architecture as `ensure_runtime` does, but compile nothing: files may be missing.

    Raises
    ------
    UsageError
        edge-rt does not support this architecture.
    MissingError
        TVM's packages are not installed.
    """
    if arch not in ARCHES:
        raise UsageError(
            f"edge-rt cannot be compiled for {arch!r}",
            f"the architectures are: {', '.join(ARCHES)}",
        )
    fingerprint = expected_fingerprint()
    folder = config.cache_dir() / "runtime" / f"{fingerprint}-{arch}"
    return Runtime(folder / PROGRAM, folder / LIBRARY, NATIVE / "edge_rt.h", fingerprint, arch)


def is_compiled(arch: str) -> bool:
    """Return whether edge-rt for an architecture is in the cache or its wheel: nothing has to be compiled."""
    folder = config.cache_dir() / "runtime" / f"{expected_fingerprint()}-{arch}"
    return _is_whole(folder) or read_compiled(arch) is not None


def _is_whole(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (PROGRAM, LIBRARY))


def _compile_once(root: Path, folder: Path, arch: str, progress: Callable[[str], None]) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f"{folder.name}.lock", timeout=_LOCK_S):
            if _is_whole(folder):
                return
            shutil.rmtree(folder, ignore_errors=True)  # someone removed a file from it
            for rest in root.glob(f".{folder.name}.*"):  # a build that was killed
                shutil.rmtree(rest, ignore_errors=True)
            with replacing_folder(folder) as kept:
                contents = _from_wheel(arch, progress) or _compiled(arch, folder, progress)
                for name, content in contents.items():
                    (kept / name).write_bytes(content)
                    (kept / name).chmod(0o755)
    except Timeout:
        raise ToolchainError(
            f"another process has been compiling edge-rt for {arch} for {_LOCK_S:g} s",
            f"end it, then remove {root / f'{folder.name}.lock'}",
        ) from None
    except OSError as error:
        raise ToolchainError(
            f"cannot keep edge-rt in {root}: {error.strerror or error}",
            "set cache_dir to a folder with 1 GiB of free space",
        ) from error


def _from_wheel(arch: str, progress: Callable[[str], None]) -> dict[str, bytes] | None:
    """Return the files of edge-rt's wheel; None without one, or if it is of another version."""
    contents = read_compiled(arch)
    if contents is None and installed_folder(arch) is not None:
        why = "it is not this version's" if pinned_digests(arch) else "this version has no digests of it"
        progress(f"edge-rt for {arch}: {package_of(arch)} is not used, since {why}; compiling it")
    return contents


def _compiled(arch: str, folder: Path, progress: Callable[[str], None]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as build:
        compile_runtime(arch, Path(build), progress)
        if digest_sources() != expected_fingerprint():
            raise ToolchainError(
                f"the sources in {NATIVE} changed while edge-rt for {arch} was compiled from them",
                "run the same command again",
            )
        return {name: (Path(build) / name).read_bytes() for name in (PROGRAM, LIBRARY)}


# Compiles edge-rt once more, to check that the cached files are what the sources produce.


@dataclass(frozen=True)
class SourceComparison:
    """Digests of edge-rt's files, and of those that were compiled from the same sources now.

    Attributes
    ----------
    kept, anew
        SHA-256 of the cached and of the freshly compiled files, in hexadecimal, by file name.
    released
        Digests of this version's release; None in a checkout.
    """

    arch: str
    fingerprint: str
    kept: dict[str, str]
    anew: dict[str, str]
    released: dict[str, str] | None

    @property
    def equal(self) -> bool:
        """Whether all are equal."""
        return self.kept == self.anew and self.released in (None, self.anew)

    def check(self) -> None:
        """Raise CheckError if a file differs."""
        for name in FILES:
            if self.kept[name] != self.anew[name]:
                raise CheckError(
                    f"{name} for {self.arch}: {self.kept[name]} is kept here, its sources make "
                    f"{self.anew[name]}",
                    "toolchain cache prune --all removes what is kept; then it is compiled here",
                )
            if self.released and self.released[name] != self.anew[name]:
                raise CheckError(
                    f"{name} for {self.arch}: {self.released[name]} was released, its sources make "
                    f"{self.anew[name]}",
                    "report it; meanwhile uninstall the wheel that has edge-rt, and it is compiled here",
                )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "arch": self.arch,
            "fingerprint": self.fingerprint,
            "equal": self.equal,
            "kept": self.kept,
            "anew": self.anew,
            "released": self.released,
        }


def compare_with_sources(runtime: Runtime, progress: Callable[[str], None]) -> SourceComparison:
    """Compile edge-rt in a new folder with an empty zig cache, and compare it with the cached one.

    Raises
    ------
    MissingError, ToolchainError
        See `compile_runtime`.
    """
    with scratch_folder() as scratch:
        folder = scratch / "build"
        folder.mkdir()
        compile_runtime(runtime.arch, folder, progress, zig_cache=scratch / "zig")
        anew = digests_in(folder)
    kept = digests_in(runtime.program.parent)
    return SourceComparison(runtime.arch, runtime.fingerprint, kept, anew, pinned_digests(runtime.arch))


def digests_in(folder: Path) -> dict[str, str]:
    """Return the digests of edge-rt's files in a folder."""
    return {name: digest_of((folder / name).read_bytes()) for name in FILES}

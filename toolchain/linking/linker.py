"""From compiled objects to the library that a board loads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from toolchain.errors import ToolchainError
from toolchain.linking.c_library import c_library
from toolchain.linking.helpers import ensure_helpers
from toolchain.linking.process import Ended
from toolchain.linking.symbols import RUNTIME_PREFIXES, object_symbols
from toolchain.profiles import Profile

DEADLINE_S = 120.0  # 0.02 s is usual; libraries with 100 MB of constants on a busy disk take seconds


# Bound at once: a symbol that the board lacks shows when the library is loaded, not in mid-inference.
_FLAGS = (
    *("-shared", "-s", "--as-needed", "--build-id=none", "--hash-style=gnu", "--eh-frame-hdr"),
    "--gc-sections",  # of functions that every object brings along, one is enough
    *("-z", "now", "-z", "relro", "-z", "noexecstack"),
)


class Linker(Protocol):
    """What turns objects into a library."""

    def check(self, profile: Profile) -> None:
        """Refuse, before anything is compiled, to link for boards of `profile`.

        Raises
        ------
        UsageError
            It does not link for such boards.
        MissingError
            It is not on this machine.
        """

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        ToolchainError
            They cannot be linked; says why, in the linker's own words.
        """


def flags_for(profile: Profile, objects: Sequence[Path]) -> tuple[str, ...]:
    """Return what ld or lld are told for boards of `profile`.

    No SONAME for Linux: it would be the file's name, and the library's bytes must not depend on that.
    Android's loader wants one, which no other library may have: it is made of the objects. Its releases
    before API level 23 know the older hash tables alone (bionic, `android-changes-for-ndk-developers.md`).
    It makes whole pages read-only: none may hold what is written later (bionic, `linker/linker_phdr.cpp`).
    """
    arch = profile.architecture
    flags = (*_FLAGS, "-z", f"max-page-size={arch.page}")
    if not arch.android:
        return flags
    digest = hashlib.sha256()
    for path in objects:
        digest.update(path.read_bytes())
    naming = ("-soname", f"{digest.hexdigest()[:16]}.so")
    return (*flags, "-z", f"common-page-size={arch.page}", "--hash-style=both", *naming)


def check_wanted(objects: Sequence[Path], profile: Profile) -> None:
    """Refuse objects that want symbols which no board of `profile` has.

    Raises
    ------
    ToolchainError
        Lists those symbols.
    """
    arch = profile.architecture
    offered = {name for symbols in c_library(arch, profile.glibc).values() for name in symbols}
    wanted = object_symbols([*objects, *ensure_helpers(arch, objects)]).undefined - offered
    lacking = sorted(name for name in wanted if not name.startswith(RUNTIME_PREFIXES))
    if lacking:
        library = f"glibc {profile.glibc}" if profile.glibc else "the C library"
        raise ToolchainError(
            f"undefined symbols in {', '.join(map(str, objects))}: {', '.join(lacking)}; neither {library} "
            f"of board class {profile.name} nor the runtime offers them",
            "name the operator that needs them by `toolchain tasks MODEL --show ID`",
        )


def report(out: Path, ended: Ended) -> None:
    """Turn a linker's failure into an error.

    Raises
    ------
    ToolchainError
        It failed; repeats its last lines.
    """
    if ended.returncode != 0:
        raise ToolchainError(f"cannot link {out}:\n{ended.last_lines()}", "build the objects again")

"""The interface of linkers, and the flags that all of them use."""

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


# `-z now`: a symbol missing on the board is an error when the library is loaded, not during inference.
_FLAGS = (
    *("-shared", "-s", "--as-needed", "--build-id=none", "--hash-style=gnu", "--eh-frame-hdr"),
    "--gc-sections",  # every object has its own copy of some functions, one copy is enough
    *("-z", "now", "-z", "relro", "-z", "noexecstack"),
)


class Linker(Protocol):
    """Links objects into a library."""

    def check(self, profile: Profile) -> None:
        """Raise an error if this linker cannot link for boards of `profile`; called before compiling.

        Raises
        ------
        UsageError
            The linker does not support such boards.
        MissingError
            The linker is not installed.
        """

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        ToolchainError
            The linker failed; the message has its output.
        """


def flags_for(profile: Profile, objects: Sequence[Path]) -> tuple[str, ...]:
    """Return the flags of ld or lld for boards of `profile`.

    Linux libraries get no SONAME: it would be the file's name, and the library's bytes must not depend on it.
    Android's loader needs a unique SONAME, which is made from the objects' digest. Android before API level
    23 supports only the older hash tables (bionic, `android-changes-for-ndk-developers.md`). Its loader makes
    whole pages read-only, so those must hold no writable data (bionic, `linker/linker_phdr.cpp`).
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
    """Raise an error if objects need symbols that boards of `profile` lack.

    Raises
    ------
    ToolchainError
        The message lists those symbols.
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
            "find the operator that needs them with `toolchain tasks MODEL --show ID`",
        )


def report(out: Path, ended: Ended) -> None:
    """Turn a linker's failure into an error.

    Raises
    ------
    ToolchainError
        The linker failed; the message has its last lines.
    """
    if ended.returncode != 0:
        raise ToolchainError(f"cannot link {out}:\n{ended.last_lines()}", "build the objects again")

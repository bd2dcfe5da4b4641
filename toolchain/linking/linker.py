"""From compiled objects to the library that a board loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from toolchain.errors import ToolchainError
from toolchain.linking.architectures import architecture_of
from toolchain.linking.glibc import LIBC, LIBM, versions_for
from toolchain.linking.helpers import helper_objects
from toolchain.linking.process import Ended
from toolchain.linking.symbols import RUNTIME_PREFIXES, object_symbols
from toolchain.profiles import Profile

DEADLINE_S = 120.0  # 0.02 s is usual; libraries with 100 MB of constants on a busy disk take seconds


# No SONAME: it would be the file's name, and the library's bytes must not depend on that.
# Bound at once: a symbol that the board lacks shows when the library is loaded, not in mid-inference.
COMMON_FLAGS = (
    *("-shared", "-s", "--as-needed", "--build-id=none", "--hash-style=gnu", "--eh-frame-hdr"),
    *("-z", "now", "-z", "relro", "-z", "noexecstack"),
)


class Linker(Protocol):
    """What turns objects into a library."""

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        ToolchainError
            They cannot be linked; says why, in the linker's own words.
        """


def check_wanted(objects: Sequence[Path], profile: Profile) -> None:
    """Refuse objects that want symbols which no board of `profile` has.

    Raises
    ------
    ToolchainError
        Lists those symbols.
    """
    arch = architecture_of(profile)
    libraries = (versions_for(library, arch.glibc_base, profile.glibc) for library in (LIBM, LIBC))
    offered = {name for library in libraries for name in library}
    wanted = object_symbols([*objects, *helper_objects(arch, objects)]).undefined - offered
    lacking = sorted(name for name in wanted if not name.startswith(RUNTIME_PREFIXES))
    if lacking:
        raise ToolchainError(
            f"undefined symbols in {', '.join(map(str, objects))}: {', '.join(lacking)}; neither glibc "
            f"{profile.glibc} of board class {profile.name} nor the runtime offers them",
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

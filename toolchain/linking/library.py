"""Links objects into a library and checks it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolchain.linking.gate import check_library
from toolchain.linking.linker import Linker
from toolchain.linking.lld import ZigLinker
from toolchain.profiles import Profile


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

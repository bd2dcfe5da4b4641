"""From objects to a library that a board may be given."""

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
    """Link objects, in this order, and let nothing through that boards could not load.

    Parameters
    ----------
    library
        The file to write.
    profile
        Of the boards.
    linker
        None: zig's.

    Raises
    ------
    ToolchainError
        They cannot be linked, or what came out fails its check.
    """
    (linker or ZigLinker()).link(objects, library, profile)
    check_library(library, profile, objects)

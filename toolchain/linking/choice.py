"""Which linker `--linker` means."""

from __future__ import annotations

from toolchain.errors import UsageError
from toolchain.linking.gcc import GccLinker
from toolchain.linking.linker import Linker
from toolchain.linking.lld import ZigLinker

LINKERS = ("zig", "gcc", "ndk")


def linker_named(name: str) -> Linker:
    """Return the linker that `--linker NAME` means.

    Raises
    ------
    UsageError
        There is no linker of that name, or it comes with a board class that is not there yet.
    """
    if name == "zig":
        return ZigLinker()
    if name == "gcc":
        return GccLinker()
    if name == "ndk":
        raise UsageError("--linker ndk: it comes with the Android board class", "use --linker zig")
    raise UsageError(f"--linker {name}: there is no such linker", f"the linkers are: {', '.join(LINKERS)}")

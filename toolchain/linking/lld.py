"""lld, which comes with zig: the linker that is there unless told otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolchain.linking.architectures import architecture_of
from toolchain.linking.helpers import helper_objects
from toolchain.linking.linker import COMMON_FLAGS, DEADLINE_S, check_wanted, report
from toolchain.linking.stubs import stub_libraries
from toolchain.linking.zig import run_zig
from toolchain.profiles import Profile


class ZigLinker:
    """`zig ld.lld` with our stub libraries: the same bytes on every host, in about 0.02 s."""

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        ToolchainError
            They cannot be linked; says why, in the linker's own words.
        MissingError
            There is no zig.
        """
        arch = architecture_of(profile)
        check_wanted(objects, profile)
        flags = ["-m", arch.emulation, "-z", f"max-page-size={arch.page}", *COMMON_FLAGS]
        files = (out, *objects, *helper_objects(arch, objects), *stub_libraries(arch, profile.glibc))
        report(out, run_zig(["ld.lld", *flags, "-o", *map(str, files)], DEADLINE_S))

"""lld behind an Android NDK's clang, for those whose libraries must come from Google's linker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from toolchain.errors import MissingError, UsageError
from toolchain.linking.driver import link_by
from toolchain.profiles import Profile

VARIABLE = "TVM_NDK_CC"  # TVM's own name for it (tvm.contrib.ndk)
_EXAMPLE = "NDK/toolchains/llvm/prebuilt/linux-x86_64/bin/aarch64-linux-android21-clang++"


def ndk_program() -> str:
    """Return the NDK's compiler, which TVM_NDK_CC names.

    Raises
    ------
    MissingError
        The variable is not set.
    UsageError
        It names nothing that can be run.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        raise MissingError(
            f"--linker ndk: {VARIABLE} is not set", f"export {VARIABLE}={_EXAMPLE}, or use --linker zig"
        )
    found = shutil.which(named)
    if found is None:
        raise UsageError(
            f"--linker ndk: {VARIABLE}={named} is not a program that can be run",
            f"set {VARIABLE} to the NDK's compiler, such as {_EXAMPLE}, or use --linker zig",
        )
    return found


class NdkLinker:
    """The NDK's clang with `-nostdlib -shared` and our stub libraries: the NDK's have versions."""

    def check(self, profile: Profile) -> None:
        """Refuse to link for other boards than Android's, or without an NDK."""
        if not profile.android:
            raise UsageError(
                f"--linker ndk: it links for Android, and board class {profile.name} is {profile.triple}",
                "use --linker zig",
            )
        ndk_program()

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        UsageError
            The boards are not Android's, or TVM_NDK_CC names nothing that can be run.
        MissingError
            TVM_NDK_CC is not set.
        ToolchainError
            They cannot be linked; says why, in the linker's own words.
        """
        self.check(profile)
        link_by(ndk_program(), objects, out, profile)

"""lld through the clang of an Android NDK, for users whose libraries must come from Google's linker."""

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
    """Return the NDK's compiler that TVM_NDK_CC names.

    Raises
    ------
    MissingError
        The variable is not set.
    UsageError
        It does not name a program that can be run.
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
    """Links by the NDK's clang with `-nostdlib -shared` against our stubs, since the NDK's have versions."""

    def check(self, profile: Profile) -> None:
        """Raise an error for boards without Android, or if no NDK is configured."""
        if not profile.android:
            raise UsageError(
                f"--linker ndk: it links for Android, but board class {profile.name} is {profile.triple}",
                "use --linker zig",
            )
        ndk_program()

    def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
        """Link `objects`, in this order, to the library `out` for boards of `profile`.

        Raises
        ------
        UsageError
            The boards do not run Android, or TVM_NDK_CC does not name a program that can be run.
        MissingError
            TVM_NDK_CC is not set.
        ToolchainError
            The linker failed; the message has its output.
        """
        self.check(profile)
        link_by(ndk_program(), objects, out, profile)

"""Compiles edge-rt once more and compares: whether it is what its sources say, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.errors import CheckError
from toolchain.files.scratch import scratch_folder
from toolchain.runtime.cache import Runtime
from toolchain.runtime.compile import compile_runtime
from toolchain.runtime.compiled import FILES, digest_of, pinned_digests


@dataclass(frozen=True)
class Anew:
    """Digests of edge-rt's files, and of those that were compiled from the same sources now.

    Attributes
    ----------
    kept, anew
        SHA-256 in hexadecimal, by name of the file.
    released
        Those that this version was released with; None in a checkout.
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


def compile_anew(runtime: Runtime, progress: Callable[[str], None]) -> Anew:
    """Compile edge-rt in a new folder, with a new cache of zig's, and compare it with what is kept.

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
    return Anew(runtime.arch, runtime.fingerprint, kept, anew, pinned_digests(runtime.arch))


def digests_in(folder: Path) -> dict[str, str]:
    """Return the digests of edge-rt's files in a folder."""
    return {name: digest_of((folder / name).read_bytes()) for name in FILES}

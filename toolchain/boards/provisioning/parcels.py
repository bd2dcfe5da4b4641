"""The files that provisioning uploads to boards of a class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from toolchain.boards.edge_rt.install import program_path
from toolchain.boards.provisioning.steps import Cargo, Parcel
from toolchain.profiles import Profile
from toolchain.runtime import arch_of, ensure_runtime, planned_runtime

SDK = "sdk"  # on the board; has a folder for each version of library and header
PROGRAM_LINK = "edge-rt"  # points to the version provisioned last, for a user's own scripts


def parcels_for(
    profile: Profile, *, sdk: bool, progress: Callable[[str], None] | None = None, compiles: bool = True
) -> tuple[Parcel, ...]:
    """Return `edge-rt` for a class of boards, compiled if necessary, and with `sdk` the C library.

    Parameters
    ----------
    compiles
        False: compile nothing, for a plan; files that are not compiled yet have no size.

    Raises
    ------
    UsageError, MissingError, ToolchainError
        See `ensure_runtime`.
    """
    arch = arch_of(profile)
    runtime = ensure_runtime(arch, progress=progress) if compiles else planned_runtime(arch)
    program = _cargo(program_path(runtime), runtime.program, executable=True)
    parcels = (Parcel("edge-rt", (program,), PROGRAM_LINK, program.remote, runtime.fingerprint),)
    if not sdk:
        return parcels
    version = runtime.fingerprint[:12]
    files = [_cargo(f"{SDK}/{version}/{file.name}", file) for file in (runtime.library, runtime.header)]
    return (*parcels, Parcel("the C library", tuple(files), f"{SDK}/current", version))


def _cargo(remote: str, content: Path, *, executable: bool = False) -> Cargo:
    return Cargo(remote, content, content.stat().st_size if content.exists() else None, executable)

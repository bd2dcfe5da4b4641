"""Writes a release as a Mender artifact, by Debian's `mender-artifact`."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import last_line
from toolchain.releases.exporting import WrittenFile, export_release
from toolchain.releases.signed import SignedRelease
from toolchain.releases.trust import TrustChain

MODULE = Path(__file__).with_name("edge-bundle")
"""The update module, for /usr/share/mender/modules/v3 on boards."""

TYPE = "edge-bundle"
_DEVICE_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}")
_SECONDS = 600.0  # it compresses by gzip, some 30 MB a second


def export_artifact(
    release: SignedRelease, trust: TrustChain | None, device_types: Sequence[str], file: Path
) -> WrittenFile:
    """Write a release as a Mender artifact, for its board classes if no device types are given.

    Raises
    ------
    UsageError, MissingError, ToolchainError
        As of `write_artifact` and `export_release`.
    """
    about = release.release
    types = device_types or sorted({each.removesuffix("+emulated") for each in about.classes})
    with scratch_folder() as folder:
        payload = folder / f"{about.app}-{about.version}.edge"
        export_release(release, trust, payload)
        write_artifact(payload, about.app, about.version, types, file)
    with file.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return WrittenFile(file, file.stat().st_size, digest)


def write_artifact(
    release_file: Path, app: str, version: str, device_types: Sequence[str], target: Path
) -> None:
    """Write a Mender artifact whose payload is one release file.

    It is not signed for Mender; the release inside is signed for edge-rt. `mender-artifact sign` adds a
    signature of its own.

    Parameters
    ----------
    release_file
        What `toolchain release export` writes.
    device_types
        Mender's device types that may install it, as in `/var/lib/mender/device_type`.

    Raises
    ------
    UsageError
        A device type is malformed.
    MissingError
        `mender-artifact` is not installed.
    ToolchainError
        It failed.
    """
    for each in device_types:
        if not _DEVICE_TYPE.fullmatch(each):
            raise UsageError(f"--device-type {each!r}: not a device type of Mender", "such as rk3399")
    program = shutil.which("mender-artifact")
    if program is None:
        raise MissingError("Mender artifacts need mender-artifact", "sudo apt-get install mender-artifact")
    types = [word for each in device_types for word in ("--device-type", each)]
    with atomic.replacing(target) as temporary:
        command = [program, "write", "module-image", "--type", TYPE, "--artifact-name", f"{app}-{version}"]
        named = ["--software-name", app, "--software-version", version]
        files = ["--file", str(release_file), "--output-path", str(temporary)]
        try:
            done = subprocess.run(
                [*command, *types, *named, *files], capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ToolchainError(f"mender-artifact has not ended within {_SECONDS:g} s") from error
        if done.returncode != 0:
            raise ToolchainError(f"mender-artifact cannot write {target}: {last_line(done.stderr)}")

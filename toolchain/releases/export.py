"""The stream by which a release reaches a board, a file with that stream, and a Mender artifact around it."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from toolchain.errors import CheckError, MissingError, ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import last_line
from toolchain.releases.envelope import Envelope, dump
from toolchain.releases.signed_release import SignedRelease
from toolchain.releases.trust import TrustChain

# The stream that carries a release to a board, as a file or as a dialogue with `edge-rt install -`.

MAGIC = b"edge-release 1\n"
MOST_HEADER = 4096


def stream_head(
    signed: SignedRelease,
    trust: Sequence[Envelope] = (),
    *,
    newest: str | None = None,
    downgrade: bool = False,
    board_class: str | None = None,
    attempt: str | None = None,
) -> bytes:
    """Return everything before the parts: magic, header, envelopes of the trust and of the release.

    Parameters
    ----------
    trust
        Envelopes of the trust, oldest first; a board passes over those that it has.
    newest
        The newest version of the application that this host knows.
    downgrade
        Whether the operator allows an older version than the board has.
    board_class
        What the host calls the board's class; None in a file, for which the board's policy says it.
    attempt
        The number of this attempt, 16 hexadecimal digits, by which the host asks for its result after a lost
        link; None in a file, which an edge-rt of version 0.1.0 may read.

    Raises
    ------
    UsageError
        The trust has more versions than a header can list.
    """
    envelopes = [envelope.to_bytes() for envelope in trust]
    release = signed.envelope.to_bytes()
    header: dict[str, object] = {
        "app": signed.release.app,
        "trust": [len(envelope) for envelope in envelopes],
        "release": len(release),
        "newest": newest,
        "downgrade": downgrade,
        "class": board_class,
    }
    if attempt is not None:
        header["attempt"] = attempt
    line = dump(header) + b"\n"
    if len(line) > MOST_HEADER:
        raise UsageError(
            f"the trust has too many versions for one stream: {len(envelopes)}",
            "remove the oldest lines of the trust file that no board needs any more",
        )
    return b"".join([MAGIC, line, *envelopes, release])


@dataclass(frozen=True)
class Delivery:
    """A release with the trust and the permissions that every board gets with it.

    Attributes
    ----------
    trust
        The trust file; its first version is given to boards that trust nobody, later ones to all.
    newest
        The newest version of the application that this host knows.
    downgrade
        Whether the operator allows an older version.
    """

    signed: SignedRelease
    trust: TrustChain | None = None
    newest: str | None = None
    downgrade: bool = False

    def head(self, board_class: str, attempt: str) -> bytes:
        """Return the stream to a board of this class up to the parts; `attempt` is the attempt's number."""
        return stream_head(
            self.signed,
            self.trust.envelopes if self.trust else (),
            newest=self.newest,
            downgrade=self.downgrade,
            board_class=board_class,
            attempt=attempt,
        )


class WrittenFile(NamedTuple):
    """A file that was written."""

    file: Path
    size: int
    sha256: str


def export_release(release: SignedRelease, trust: TrustChain | None, file: Path) -> WrittenFile:
    """Write the release file of docs/release-format.md: head, then every part.

    Raises
    ------
    CheckError
        The bundle changed since it was compared with its release.
    ToolchainError
        The file system refuses.
    """
    _refuse_source(release, file)
    digest, size = hashlib.sha256(), 0
    with atomic.replacing(file) as temporary, temporary.open("wb") as out:
        for chunk in _content(release, trust):
            out.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return WrittenFile(file, size, digest.hexdigest())


def export_bundle(release: SignedRelease, file: Path) -> tuple[WrittenFile, WrittenFile]:
    """Copy the bundle to `file`, and its release to `file`.release, for another way to the board.

    Errors as of `export_release`.
    """
    _refuse_source(release, file)
    with atomic.replacing(file) as temporary:
        shutil.copyfile(release.bundle, temporary)
        with temporary.open("rb") as copy:
            digest = hashlib.file_digest(copy, "sha256").hexdigest()
        if digest != release.digest:
            raise _changed(release)
        size = temporary.stat().st_size
    envelope = release.envelope.to_bytes() + b"\n"
    envelope_file = file.with_name(f"{file.name}.release")
    atomic.write_bytes(envelope_file, envelope)
    return WrittenFile(file, size, digest), WrittenFile(
        envelope_file, len(envelope), hashlib.sha256(envelope).hexdigest()
    )


def _content(release: SignedRelease, trust: TrustChain | None) -> Iterator[bytes]:
    yield stream_head(release, trust.envelopes if trust else (), newest=release.release.version)
    for index, part in enumerate(release.parts):
        digest = hashlib.sha256()
        for chunk in release.part(index):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != part.sha256:
            raise _changed(release)


def _refuse_source(release: SignedRelease, file: Path) -> None:
    if file.exists() and any(file.samefile(source) for source in (release.bundle, release.file)):
        raise UsageError(f"-o {file} is the bundle or its release", "name another file")


def _changed(release: SignedRelease) -> CheckError:
    return CheckError(f"bundle {release.bundle} changed while it was exported", "run the same command again")


# Writes a release as a Mender artifact, by Debian's `mender-artifact`.

MODULE = Path(__file__).parent / "mender" / "edge-bundle"
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
    types = device_types or sorted({name.removesuffix("+emulated") for name in about.classes})
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
    for device_type in device_types:
        if not _DEVICE_TYPE.fullmatch(device_type):
            raise UsageError(f"--device-type {device_type!r}: not a device type of Mender", "such as rk3399")
    program = shutil.which("mender-artifact")
    if program is None:
        raise MissingError("Mender artifacts need mender-artifact", "sudo apt-get install mender-artifact")
    types = [word for device_type in device_types for word in ("--device-type", device_type)]
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

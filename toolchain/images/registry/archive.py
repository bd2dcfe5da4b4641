"""Container images as files that `docker load` takes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

CHANGED = 1686355200
"""Time of all that images are made of: 2023-06-10, the day of Debian 12's release.

No file says when it was built, and an image's ID depends on its content alone.
"""

_CREATED = datetime.fromtimestamp(CHANGED, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_archive(
    target: Path,
    layer: Path,
    tag: str,
    architecture: str,
    command: Sequence[str],
    labels: Mapping[str, str],
) -> None:
    """Write a docker-archive of one layer.

    `docker import --platform` is ignored by old engines (moby#42813); what an archive's
    configuration says about its architecture is not.

    Parameters
    ----------
    target
        The file to write.
    layer
        An uncompressed tar of the root file system.
    architecture
        In Go's words: `amd64`, `arm64`, `arm`.
    """
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "created": _CREATED,
        "config": {"Cmd": list(command), "Labels": dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(configuration, sort_keys=True).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        add_file(archive, name, text)
        add_file(archive, "manifest.json", json.dumps(manifest).encode())
        archive.add(layer, "layer.tar", filter=_anonymous)


def add_file(
    archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644, owner: int = 0, changed: int = 0
) -> None:
    """Add a file of `content` to a tar; `owner` is both its user's and its group's number."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.uid, entry.gid, entry.mtime = len(content), mode, owner, owner, changed
    archive.addfile(entry, io.BytesIO(content))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry

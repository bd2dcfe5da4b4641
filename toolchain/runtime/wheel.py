"""edge-rt from a wheel: compiled for one architecture, and pinned by the digests in this package.

`make release` compiles edge-rt and writes the digests of its files into this package, as `digests.json`. A
wheel is used only if its files have these digests; else, and in a checkout, edge-rt is compiled from sources.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

from toolchain.runtime.compile import LIBRARY, PROGRAM
from toolchain.runtime.fingerprint import expected_fingerprint

DIGESTS = Path(__file__).with_name("digests.json")
FILES = (PROGRAM, LIBRARY)


def package_of(arch: str) -> str:
    """Return the name of the package that has edge-rt for an architecture, as Python imports it."""
    return f"edge_toolchain_rt_{arch}"


def write_digests(folders: dict[str, Path], file: Path) -> None:
    """Write the digests of compiled files, by architecture, and the fingerprint of their sources."""
    digests = {
        arch: {name: digest_of((folder / name).read_bytes()) for name in FILES}
        for arch, folder in sorted(folders.items())
    }
    file.write_text(json.dumps({"fingerprint": expected_fingerprint(), "files": digests}, indent=1) + "\n")


def pinned_digests(arch: str) -> dict[str, str] | None:
    """Return the SHA-256 of each file of edge-rt as it was released, in hexadecimal.

    None in a checkout: if edge-rt was not released for that architecture, or was released from other sources
    or by another compiler than those installed.
    """
    try:
        document = json.loads(DIGESTS.read_text())
    except FileNotFoundError:
        return None
    if document["fingerprint"] != expected_fingerprint():
        return None
    digests: dict[str, str] | None = document["files"].get(arch)
    return digests


def read_compiled(arch: str) -> dict[str, bytes] | None:
    """Return the files of an installed edge-rt wheel by name; None if they differ from the release.

    The files are read once, so the checked bytes are the returned ones.
    """
    pinned, folder = pinned_digests(arch), installed_folder(arch)
    if pinned is None or folder is None:
        return None
    try:
        contents = {name: (folder / name).read_bytes() for name in FILES}
    except OSError:
        return None
    return contents if all(digest_of(contents[name]) == pinned.get(name) for name in FILES) else None


def installed_folder(arch: str) -> Path | None:
    """Return the folder of an installed edge-rt wheel, unchecked."""
    spec = importlib.util.find_spec(package_of(arch))
    folders = list(spec.submodule_search_locations or []) if spec else []
    return Path(folders[0]) if folders else None


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()

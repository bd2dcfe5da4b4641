"""A fleet of boards of this host with the real edge-rt, and signed releases of the small network for them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from toolchain.bundles.read import Bundle
from toolchain.measuring.verifications import remember
from toolchain.releases.signers.openssh import make_pair

APP = "small"
BOARDS = ("one", "two", "three")
_ENTRIES = "".join(
    f'[boards.{name}]\nclass = "local"\nhost = "local"\ngroups = ["field", "{name}s"]\n' for name in BOARDS
)


def bundle_of(version: str) -> str:
    """Return the name of a release's bundle in the commands' folder."""
    return f"{APP}-{version}.bundle"


def sign(folder: Path, invoke: Toolchain, bundle: Bundle, version: str, *options: str) -> str:
    """Copy a bundle, sign it by anna, and return its name; for each version its bytes are others."""
    path = folder / bundle_of(version)
    shutil.copy(bundle.path, path)
    terms = ("--key", "anna", "--version", version, "--expires", "2100-01-01", *options)
    signed = invoke("release", "sign", path.name, *terms)
    assert signed.code == 0, signed.err
    return path.name


def make_fleet(folder: Path, invoke: Toolchain, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the fleet's toolchain.toml, a key and a trust; return the bundle of release 1.0.0."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder.parent / "data"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (folder / "toolchain.toml").write_text(_ENTRIES)
    make_pair(folder / "anna", "")
    assert invoke("release", "init", "--key", "anna").code == 0
    digest = hashlib.sha256(bundle.path.read_bytes()).hexdigest()
    remember(digest, bundle.manifest.board_class, 1e-6, "cpu")
    return sign(folder, invoke, bundle, "1.0.0")


def write_policy(state: Path, board: str, **policy: object) -> None:
    """Write what a board's owner decides."""
    file = state / "boards" / board / "field" / APP / "policy.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(policy))

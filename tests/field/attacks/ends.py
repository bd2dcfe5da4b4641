"""The two ends that are attacked: the functions of `toolchain release verify`, and the board's installer."""

from __future__ import annotations

import json
from pathlib import Path

from tests.field.attacks.scene import Scene, release
from tests.field.board import Board
from tests.field.build import installer
from tests.field.toy import NOW, Toy
from toolchain.errors import ToolchainError
from toolchain.releases.signed_release import read_release_keys, release_path, verify_release


def host_says(scene: Scene, folder: Path) -> str:
    """Return the error with which the host refuses; empty if it accepts."""
    trust, bundle = folder / "trust.json", folder / "toy.bundle"
    trust.write_bytes(b"".join(each + b"\n" for each in scene.trusts))
    bundle.write_bytes(scene.bundle)
    release_path(bundle).write_bytes(scene.release)
    try:
        verify_release(bundle, read_release_keys(trust), now=scene.now)
    except ToolchainError as refused:
        return refused.message
    return ""


def board_says(scene: Scene, folder: Path) -> str:
    """Return the code with which the board refuses, which stays as it was; empty if it installs."""
    board = Board(folder, (installer(),), {"FIELD_NOW": str(scene.now)})
    code, lines = board.call("trust", "--first", stdin=scene.had or scene.trusts[0], FIELD_NOW=str(NOW))
    if code:
        assert not (board.field / "trust.json").exists()
        return str(lines[-1]["error"]["kind"])
    for version in scene.installed:
        _install(board, version, scene)
    if scene.policy:
        board.app.mkdir(parents=True, exist_ok=True)
        (board.app / "policy.json").write_text(json.dumps(scene.policy))
    before, file = board.current(), folder / "attack.edge"
    file.write_bytes(scene.sent())
    last = board.call("install", str(file))[1][-1]
    if last["end"] == "installed":
        return ""
    assert last["end"] in {"refused", "interrupted"}, last
    assert board.current() == before
    releases = board.app / "releases"
    assert not releases.exists() or {path.name for path in releases.iterdir()} <= {before}
    return str(last["cause"]["code"])


def _install(board: Board, version: str, scene: Scene) -> None:
    toy = Toy(version)
    file = board.folder / "before.edge"
    payload = json.dumps(toy.statement).encode()
    parts = b"".join(toy.parts.values())
    file.write_bytes(Scene(scene.trusts[:1], release=release(payload=payload), parts=parts).sent())
    code, lines = board.call("install", str(file), FIELD_NOW=str(NOW))
    assert code == 0, lines

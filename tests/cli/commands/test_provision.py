"""`toolchain board provision`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from toolchain.boards.inventory.lookup import local_board


@pytest.mark.slow
def test_provision_dry_run_apply_repeat_and_remove(invoke: Toolchain, state: Path) -> None:
    planned = invoke("board", "provision", "local", "--dry-run")
    assert planned.code == 0 and "send edge-rt" in planned.out and "put bin/edge-rt-" in planned.out
    assert list((state / "boards" / "local").iterdir()) == []
    first = invoke("board", "provision", "local", "--json").document
    assert first["changed"] and not first["dry_run"] and first["steps"]
    again = invoke("board", "provision", "local")
    assert again.code == 0 and "nothing to do" in again.out
    assert invoke("board", "provision", "local", "--json").document["steps"] == []
    assert invoke("board", "provision", "local", "--remove").code == 0
    assert not (state / "boards" / "local").exists()


@pytest.mark.slow
def test_with_the_first_trust_the_board_learns_its_class(invoke: Toolchain, state: Path) -> None:
    assert invoke("release", "keygen", "-o", "anna", "--no-passphrase").code == 0
    assert invoke("release", "init", "--key", "anna").code == 0
    given = invoke("board", "provision", "local", "--trust", "trust.json")
    assert given.code == 0, given.err
    note = state / "boards" / "local" / "field" / ".board.json"
    assert json.loads(note.read_text()) == {"class": local_board().record_class}
    assert note.stat().st_mode & 0o777 == 0o600
    assert "nothing to do" in invoke("board", "provision", "local").out
    note.unlink()  # a board that got its trust from an earlier version
    assert invoke("board", "provision", "local").code == 0 and note.exists()


def test_a_dry_run_compiles_nothing(
    invoke: Toolchain, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("toolchain.runtime.cache.compile_runtime", lambda *_: pytest.fail("it compiles"))
    planned = invoke("board", "provision", "local", "--dry-run")
    assert planned.code == 0 and "1. send edge-rt: bin/edge-rt-" in planned.out
    assert "(compiled first)" in planned.out and list((state / "boards" / "local").iterdir()) == []


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nosuch"], "nosuch: there is no such board"),
        (["local", "--governor", "$(reboot)"], "--governor '$(reboot)'"),
        (["local", "--account", "Root"], "--account 'Root'"),
        (["local", "--remove", "--sdk"], "--sdk"),
        (["local", "--remove", "--account", "root"], "--account root"),
    ],
)
def test_refuses_impossible_options(invoke: Toolchain, arguments: list[str], says: str) -> None:
    ran = invoke("board", "provision", *arguments)
    assert ran.code == 2 and ran.says("error: ", "hint: ", says)

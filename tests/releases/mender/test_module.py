"""Update module and edge-rt, driven by Debian's Mender client through every state, with signed releases."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.field.board import Board
from tests.releases.conftest import Release
from tests.releases.made import ANNA
from tests.releases.mender.client import PATH, MenderClient
from tests.releases.real import BOARD_CLASS, Releases, make_releases, name_of, real_board
from tests.waiting import until
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.releases.export import export_artifact, export_release, write_artifact
from toolchain.releases.signed_release import open_release

pytestmark = pytest.mark.slow
INSTALL = ["Download", "SupportsRollback", "ArtifactInstall", "NeedsArtifactReboot"]
FAILING = ["SupportsRollback", "ArtifactRollback", "ArtifactFailure", "Cleanup"]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return make_releases(tmp_path_factory.mktemp("releases"))


@dataclass
class Fleet:
    """A board with a Mender client, and what can be installed on it."""

    board: Board
    client: MenderClient
    releases: Releases

    def install(self, name: str) -> int:
        target = self.board.folder / f"{name}.mender"
        export_artifact(self.releases[name], None, (), target)
        return self.client.run("install", target)

    def name(self, link: str = "current") -> str:
        """Return which release a link on the board leads to."""
        return name_of(self.releases, self.board.current(link))

    def cause(self) -> str:
        """Return why the last installation on the board failed."""
        return str((self.board.status()["error"] or {}).get("code", ""))


@pytest.fixture
def fleet(releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("PATH", PATH)
    health = tmp_path / "health"
    board = real_board(tmp_path, health)
    client = MenderClient.installed(tmp_path / "mender", Path(board.program[0]), board.field)
    health.write_text(f"#!/bin/sh\n[ ! -e {tmp_path}/killing ] || kill -9 $(cat {client.folder}/pid) $PPID\n")
    health.chmod(0o755)
    return Fleet(board, client, releases)


def test_every_state_of_an_update(fleet: Fleet) -> None:
    client = fleet.client
    assert fleet.install("one") == 0
    assert (client.calls(), fleet.name()) == (INSTALL, "one")
    assert client.run("commit") == 0
    assert client.calls() == ["ArtifactCommit", "Cleanup"]

    assert fleet.install("two") == 0
    assert (client.calls(), fleet.name(), fleet.name("previous")) == (INSTALL, "two", "one")
    assert client.run("rollback") == 0
    assert client.calls() == ["SupportsRollback", "ArtifactRollback", "Cleanup"]
    assert fleet.name() == "one"

    for name, cause in (("forged", "signature"), ("wrong", "wrong")):
        assert fleet.install(name) == 1
        assert (client.calls(), fleet.name(), fleet.cause()) == (INSTALL[:3] + FAILING, "one", cause)

    client.disturb("fail", "ArtifactCommit")
    assert fleet.install("two") == 0 and fleet.name() == "two"
    client.calls()
    assert client.run("commit") == 1
    assert (client.calls(), fleet.name()) == (["ArtifactCommit", *FAILING], "one")
    client.disturb("fail", None)

    assert fleet.install("two") == 0 and client.run("commit") == 0
    assert fleet.install("two") == 0, "it is in use: nothing changes"
    assert client.run("rollback") == 0 and fleet.name() == "two", "it was in use before"
    assert client.run("commit") == 2, "nothing to commit"
    assert fleet.install("one") == 1, "it is older"
    assert (fleet.name(), fleet.cause()) == ("two", "version")


def test_client_and_installer_that_were_killed_can_begin_again(fleet: Fleet) -> None:
    client, board = fleet.client, fleet.board
    assert fleet.install("one") == 0 and client.run("commit") == 0
    (board.folder / "killing").touch()
    assert fleet.install("two") != 0
    until(lambda: board.status()["state"] == "cut")
    assert fleet.name() == "two", "it is active, and nobody has committed it"
    assert client.run("commit") == 2, "the client knows nothing of it"
    (board.folder / "killing").unlink()
    assert fleet.install("two") == 0 and fleet.name() == "two"
    assert client.run("rollback") == 0 and fleet.name() == "one", "it was in use before the cut"

    client.disturb("kill", "ArtifactCommit")
    assert fleet.install("two") == 0
    assert client.run("commit") != 0
    client.disturb("kill", None)
    client.calls()
    assert client.run("commit") == 0 and client.calls() == ["ArtifactCommit", "Cleanup"]
    assert (fleet.name(), fleet.name("previous"), board.status()["state"]) == ("two", "one", "active")


def test_what_somebody_else_did_meanwhile_is_neither_committed_nor_rolled_back(fleet: Fleet) -> None:
    assert fleet.install("one") == 0 and fleet.client.run("commit") == 0
    assert fleet.install("two") == 0
    assert fleet.board.call("rollback", "--app", "toy")[0] == 0
    fleet.client.calls()
    assert fleet.client.run("commit") == 1
    assert (fleet.client.calls(), fleet.name()) == (["ArtifactCommit", *FAILING], "one")


@pytest.mark.parametrize("header", ['{"app":"../x"}', '{"app":""}', "{}", '{"app":"counter/.."}'])
def test_what_is_no_release_file_is_refused_before_edge_rt_sees_it(fleet: Fleet, header: str) -> None:
    odd, target = fleet.board.folder / "odd", fleet.board.folder / "odd.mender"
    odd.write_text(f"edge-release 1\n{header}\n")
    write_artifact(odd, "counter", "1.0.0", [BOARD_CLASS], target)
    assert fleet.client.run("install", target) == 1
    assert "the payload names no app" in (fleet.client.folder / "log").read_text()
    assert fleet.client.calls() == INSTALL[:3] + FAILING and not fleet.board.journal_lines()


def test_a_board_of_another_type_does_not_take_it(fleet: Fleet) -> None:
    (fleet.client.folder / "device_type").write_text("device_type=pynq\n")
    assert fleet.install("one") == 1
    assert fleet.client.calls() == [] and fleet.name() == ""


def test_what_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(types: list[str], file: Path = tmp_path / "none") -> None:
        write_artifact(file, "counter", "1.0.0", types, tmp_path / "x.mender")

    with pytest.raises(UsageError, match="not a device type"):
        write(["-x"])
    monkeypatch.setenv("PATH", PATH)
    assert shutil.which("mender-artifact")
    with pytest.raises(ToolchainError, match=r"mender-artifact cannot write .*none"):
        write(["rk3399"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="apt-get install mender-artifact"):
        write(["rk3399"])
    assert not list(tmp_path.iterdir())


def test_an_artifact_holds_the_release_file_for_the_classes_of_the_release(
    signed: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", PATH)
    release = open_release(signed(ANNA))
    written = export_artifact(release, None, (), tmp_path / "tiny.mender")
    said = subprocess.run(
        ["mender-artifact", "read", written.file], capture_output=True, text=True, timeout=60
    )
    plain = export_release(release, None, tmp_path / "tiny.edge")
    for line in ("Name: tiny-2.0.0", "Compatible devices: '[rk3399]'", f"checksum: {plain.sha256}"):
        assert line in " ".join(said.stdout.split()), said.stdout

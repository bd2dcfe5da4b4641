"""The update module, driven by Debian's Mender client through every state; it calls a STAND-IN of edge-rt.

The stand-in lays out its folder as docs/release-format.md says, and refuses what the test tells it to.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.releases.conftest import Release
from tests.releases.made import ANNA
from tests.releases.mender.client import PATH, MenderClient
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.releases.exporting import export_release
from toolchain.releases.mender.artifact import export_artifact, write_artifact
from toolchain.releases.signed import open_release

pytestmark = pytest.mark.slow

EDGE_RT = """#!/bin/sh
set -e
command=$1
while [ $# -gt 0 ]; do
  case $1 in --field) field=$2;; --app) app=$2;; esac
  last=$1
  shift
done
echo "$command" >> FOLDER/edge-rt
link() { ln -s "$1" "$field/counter/.new"; mv -fT "$field/counter/.new" "$field/counter/$2"; }
case $command in
  install)
    file=FILE_OF_PAYLOAD
    mkdir -p "$field/counter"
    [ ! -e FOLDER/refuse ]
    new=releases/$(sed -n 3p "$file")
    old=$(readlink "$field/counter/current" || true)
    [ "$new" = "$old" ] && exit 0
    [ -z "$old" ] || link "$old" previous
    link "$new" current;;
  rollback)
    [ "$app" = counter ]
    old=$(readlink "$field/counter/current")
    link "$(readlink "$field/counter/previous")" current
    link "$old" previous;;
  recover) ;;
  *) exit 2;;
esac
"""


class Board:
    """A board with a Mender client and a folder of releases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.field = folder / "field"
        program = folder / "edge-rt.sh"
        program.write_text(EDGE_RT.replace("FOLDER", str(folder)).replace("FILE_OF_PAYLOAD", "$payload"))
        program.write_text(program.read_text().replace("command=$1\n", "command=$1\npayload=$2\n"))
        program.chmod(0o755)
        self.client = MenderClient.installed(folder / "mender", program, self.field)

    def artifact(self, digest: str, header: str = '{"app":"counter"}') -> Path:
        release = self.folder / f"{digest}.release-file"
        release.write_bytes(f"edge-release 1\n{header}\n{digest}\n".encode() + bytes(range(256)))
        target = self.folder / f"{digest}.mender"
        write_artifact(release, "counter", f"1.0.0-{digest}", ["rk3399", "rk3588"], target)
        return target

    @property
    def current(self) -> str:
        link = self.field / "counter" / "current"
        return link.readlink().name if link.is_symlink() else ""


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.setenv("PATH", PATH)
    return Board(tmp_path)


def test_every_state_of_an_update(board: Board) -> None:
    client, one, two = board.client, board.artifact("one"), board.artifact("two")
    assert client.run("install", one) == 0
    install = ["Download", "SupportsRollback", "ArtifactInstall", "NeedsArtifactReboot"]
    assert (client.calls(), board.current) == (install, "one")
    assert client.run("commit") == 0
    assert client.calls() == ["ArtifactCommit", "Cleanup"]

    assert client.run("install", two) == 0 and board.current == "two"
    client.calls()
    assert client.run("rollback") == 0
    assert client.calls() == ["SupportsRollback", "ArtifactRollback", "Cleanup"]
    assert board.current == "one"

    (board.folder / "refuse").touch()  # edge-rt itself has gone back, or has changed nothing
    failing = ["SupportsRollback", "ArtifactRollback", "ArtifactFailure", "Cleanup"]
    assert client.run("install", two) == 1
    assert (client.calls(), board.current) == (install[:3] + failing, "one")
    (board.folder / "refuse").unlink()

    client.disturb("fail", "ArtifactCommit")
    assert client.run("install", two) == 0 and board.current == "two"
    client.calls()
    assert client.run("commit") == 1
    assert (client.calls(), board.current) == (["ArtifactCommit", *failing], "one")
    client.disturb("fail", None)

    assert client.run("install", one) == 0, "it is in use: nothing changes"
    assert client.run("rollback") == 0 and board.current == "one", "it was in use before"
    assert client.run("commit") == 2, "nothing to commit"


def test_a_client_that_was_killed_can_begin_again(board: Board) -> None:
    client, one, two = board.client, board.artifact("one"), board.artifact("two")
    assert client.run("install", one) == 0 and client.run("commit") == 0
    client.disturb("kill", "ArtifactInstall")
    assert client.run("install", two) != 0
    assert board.current == "two"
    assert client.run("commit") == 2, "the client knows nothing of it"
    client.disturb("kill", None)
    assert client.run("install", two) == 0 and client.run("commit") == 0
    assert board.current == "two"

    client.disturb("kill", "ArtifactCommit")
    assert client.run("install", one) == 0
    assert client.run("commit") != 0
    client.disturb("kill", None)
    client.calls()
    assert client.run("commit") == 0 and client.calls() == ["ArtifactCommit", "Cleanup"]
    assert board.current == "one"


def test_what_somebody_else_installed_meanwhile_is_neither_committed_nor_rolled_back(board: Board) -> None:
    client = board.client
    assert client.run("install", board.artifact("one")) == 0 and client.run("commit") == 0
    assert client.run("install", board.artifact("two")) == 0
    current = board.field / "counter" / "current"
    current.unlink()
    current.symlink_to("releases/three")
    assert client.run("commit") == 1
    assert board.current == "three"


@pytest.mark.parametrize("header", ['{"app":"../x"}', '{"app":""}', "{}", '{"app":"counter/.."}'])
def test_what_is_no_release_file_is_refused_before_edge_rt_sees_it(board: Board, header: str) -> None:
    assert board.client.run("install", board.artifact("odd", header)) == 1
    assert "the payload names no app" in (board.client.folder / "log").read_text()
    assert "install" not in (
        (board.folder / "edge-rt").read_text() if (board.folder / "edge-rt").exists() else ""
    )


def test_a_board_of_another_type_does_not_take_it(board: Board) -> None:
    one = board.artifact("one")
    (board.client.folder / "device_type").write_text("device_type=pynq\n")
    assert board.client.run("install", one) == 1
    assert board.client.calls() == [] and board.current == ""


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

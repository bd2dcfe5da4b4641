"""RAUC, SWUpdate and Ansible let edge-rt install signed releases by the commands and files of the how-to."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.boards.ssh.sshd import sshd
from tests.field.board import Board
from tests.howto.page import ROOT, blocks
from tests.releases.real import Releases, make_releases, name_of, real_board
from tests.releases.views import seeing
from tests.waiting import until
from toolchain.releases.export import export_release

pytestmark = pytest.mark.full  # engines of others: root, loop devices, a bus, an environment with Ansible
FLEETS = ROOT / "docs" / "examples" / "fleets"
ENGINES = [ROOT / ".venv" / name for name in ("rauc", "swupdate", "ansible")]  # by tools/engines.sh
_BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={}</listen><policy context="default">
<allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
"""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return make_releases(tmp_path_factory.mktemp("releases"))


@dataclass(frozen=True)
class Place:
    """A folder in which the how-to's commands are typed; there the board is seen at /opt/edge-toolchain."""

    folder: Path
    board: Board
    releases: Releases

    @property
    def environment(self) -> dict[str, str]:
        programs = [str(root / bin) for root in ENGINES for bin in ("bin", "usr/bin", "usr/sbin")]
        libraries = [str(each) for root in ENGINES for each in root.glob("**/*-linux-gnu") if each.is_dir()]
        return {
            "HOME": str(self.folder),
            "PATH": ":".join([os.environ["PATH"], *programs]),
            "LD_LIBRARY_PATH": ":".join(libraries),
            "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.folder}/bus",
        }

    def seen(self) -> list[str]:
        return seeing({"/opt": self.folder / "opt", "/etc": self.folder / "etc"})

    def run(self, *argv: str | Path) -> int:
        """Run a command on the board; what it says goes to the log."""
        with (self.folder / "log").open("ab") as log:
            return subprocess.run(
                [*self.seen(), *argv],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                timeout=120,
            ).returncode

    def type(self, block: str) -> int:
        """Type commands of the page."""
        return self.run("sh", "-ec", block)

    def give(self, name: str, signer: str = "release") -> None:
        """Put a release where the page has it, and who signs for the engine."""
        export_release(self.releases[name], None, self.folder / "small.edge")
        for kind in ("cert", "key"):
            shutil.copy(self.folder / f"{signer}.{kind}.pem", self.folder / f"release.{kind}.pem")

    @property
    def current(self) -> str:
        return name_of(self.releases, self.board.current())


@pytest.fixture
def place(releases: Releases, tmp_path: Path) -> Place:
    board = real_board(tmp_path / "board")
    shutil.copy(board.program[0], board.folder / "edge-rt")
    for folder in ("opt", "etc/rauc", "bundle", "mount"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "opt" / "edge-toolchain").symlink_to(board.folder)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    made = Place(tmp_path, board, releases)
    for name in ("ours", "stranger"):
        extensions = ("keyUsage=digitalSignature", "extendedKeyUsage=emailProtection")
        options = [word for each in extensions for word in ("-addext", each)]
        files = ["-keyout", f"{name}.key.pem", "-out", f"{name}.cert.pem"]
        request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
        assert made.run(*request, *options, *files) == 0
    for file in ("rauc/keyring.pem", "swupdate.pem"):
        shutil.copy(tmp_path / "ours.cert.pem", tmp_path / "etc" / file)
    return made


REFUSED = {"forged": "signature", "wrong": "wrong", "one": "version"}


def see_all(place: Place, install: Callable[[], int], refused: Mapping[str, str] = REFUSED) -> None:
    """Let an engine install each release, and look at what the board has then."""
    for name in ("one", "two"):
        place.give(name, "ours")
        assert install() == 0, (place.folder / "log").read_text()
        assert place.current == name
    assert name_of(place.releases, place.board.current("previous")) == "one"
    for name, cause in refused.items():
        place.give(name, "ours")
        assert install() != 0
        assert (place.current, place.board.status()["error"]["code"]) == ("two", cause)


def see_strangers(place: Place, install: Callable[[], int]) -> None:
    """See that edge-rt is not asked when somebody signed for the engine whom it does not know."""
    journal = place.board.journal_lines()
    place.give("two", "stranger")
    assert install() != 0
    assert place.board.journal_lines() == journal


@contextmanager
def rauc_service(place: Place) -> Iterator[None]:
    """Run RAUC's service and the bus that it listens on."""
    (place.folder / "bus.conf").write_text(_BUS.format(place.folder / "bus"))
    service = ["rauc", f"--mount={place.folder}/mount", "service", "--override-boot-slot=_external_"]
    running: list[subprocess.Popen[bytes]] = []
    with (place.folder / "log").open("ab") as log:
        try:
            for argv in (
                ["dbus-daemon", f"--config-file={place.folder}/bus.conf", "--nofork"],
                [*place.seen(), *service],
            ):
                running.append(subprocess.Popen(argv, env=place.environment, stdout=log, stderr=log))
                if len(running) == 1:
                    until((place.folder / "bus").exists)
            until(lambda: place.run("rauc", "status") == 0)
            yield
        finally:
            for process in reversed(running):
                process.terminate()
            for process in running:
                process.wait(60)


def test_rauc(place: Place) -> None:
    bundle, install = blocks("fleets.md", "sh")[:2]
    shutil.copy(FLEETS / "rauc" / "system.conf", place.folder / "etc" / "rauc")

    def installed() -> int:
        (place.folder / "counter-1.4.0.raucb").unlink(missing_ok=True)
        assert place.type(bundle) == 0, (place.folder / "log").read_text()
        return place.type(install)

    with rauc_service(place):
        see_all(place, installed)
        see_strangers(place, installed)


def test_swupdate(place: Place) -> None:
    make, install = blocks("fleets.md", "sh")[2:]

    def installed() -> int:
        assert place.type(make) == 0, (place.folder / "log").read_text()
        return place.type(install)

    see_all(place, installed)
    see_strangers(place, installed)
    assert not (place.board.folder / "release.edge").exists()


def test_ansible(place: Place) -> None:
    (playbook,) = blocks("fleets.md", "yaml")
    folder = place.folder
    (folder / "roles").mkdir()
    (folder / "roles" / "edge_release").symlink_to(FLEETS / "ansible")
    (folder / "deploy.yml").write_text(playbook)
    own = {"edge_rt": f"{place.board.folder}/edge-rt", "field": str(place.board.field)}
    settings = {
        "ANSIBLE_HOME": f"{folder}/ansible",
        "ANSIBLE_REMOTE_TEMP": f"{folder}/remote",
        "ANSIBLE_SSH_ARGS": f"-o UserKnownHostsFile={folder}/known -o ControlMaster=no",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_NOCOLOR": "1",
    }
    said: list[str] = []

    def installed() -> int:
        done = subprocess.run(
            [*("ansible-playbook", "-i", "hosts", "deploy.yml"), "-e", json.dumps(own)],
            cwd=folder,
            env={**place.environment, **settings},
            capture_output=True,
            text=True,
            timeout=300,
        )
        (place.folder / "log").write_text(done.stdout + done.stderr)
        said.append(done.stdout)
        return done.returncode

    with sshd(folder / "sshd") as server:
        (folder / "known").write_text(f"[127.0.0.1]:{server.port} {server.host_key}\n")
        login = f"ansible_user={getpass.getuser()} ansible_ssh_private_key_file={server.identity}"
        python = f"ansible_python_interpreter={Path(sys.executable).resolve()}"
        address = f"bench ansible_host=127.0.0.1 ansible_port={server.port}"
        (folder / "hosts").write_text(f"[boards]\n{address} {login} {python}\n")
        see_all(place, installed, {"forged": "signature"})
        assert not place.board.field.with_name("field.incoming").exists()
        place.give("two", "ours")
        assert installed() == 0, "it is there"
    assert [text.count("\nok: [bench]") for text in said] == [0, 0, 0, 1], said

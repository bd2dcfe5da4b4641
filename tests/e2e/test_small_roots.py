"""The whole way on boards with small roots: add, provision, verify, bench, deploy, and leave them clean."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.boards.beds import OLD_MV, Bed, RunningBed, running
from tests.building.network import written
from tests.cli.running import Ran, Toolchain
from tests.waiting import until
from toolchain.boards.ssh.hostkeys import fingerprint
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]

OPENWRT = Bed(
    user="root",
    programs={"bin/mv": OLD_MV},
    file_systems={"/data": "size=24m,mode=755", "/tmp": "noexec,size=1m,mode=1777"},
    read_only=True,
)
YOCTO = Bed(binds={"/home": "noexec", "/tmp": "noexec"}, file_systems={"/data": "size=40m,mode=777"})
READ_ONLY = Bed(read_only=True, file_systems={"/data": "size=40m,mode=777"})


def ran(invoke: Toolchain, *arguments: object) -> Ran:
    done = invoke(*arguments)
    assert done.code == 0, done.err
    return done


def add(invoke: Toolchain, folder: Path, bed: RunningBed) -> None:
    """Add a bed as the board `bed`, with the one folder that it can use."""
    address, seen = bed.address, fingerprint(bed.address.host_key)
    login = f"{address.user}@{address.host}:{address.port}"
    options = ("--class", "x86_64", "--name", "bed", "--identity", address.identity, "--fingerprint", seen)
    ran(invoke, "board", "add", login, *options)
    with (folder / FILE_NAME).open("a") as file:
        file.write('root = "/data/edge"\n')
    configuration.cache_clear()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("network"))


@pytest.mark.parametrize("bed", [OPENWRT, YOCTO, READ_ONLY], ids=["OpenWrt", "Yocto", "read-only"])
def test_the_whole_way(bed: Bed, invoke: Toolchain, folder: Path, network: Path, tmp_path: Path) -> None:
    with running(bed, tmp_path / "bed") as there:
        add(invoke, folder, there)
        before = there.everything()
        assert "left for networks" in ran(invoke, "board", "provision", "bed").out
        ran(invoke, "build", network, "--board", "bed", "-o", "out")
        bundle = next((folder / "out").glob("*.bundle"))
        assert ran(invoke, "verify", bundle, "--board", "bed", "--json").document["passed"]
        timed = ran(invoke, "bench", bundle, "--board", "bed", "--time", "0.3", "--json").document
        assert timed["mean_ms"] > 0
        _kill_a_bench(bundle, folder, there)
        _deploy(invoke, bundle, there)
        status = ran(invoke, "board", "status", "bed", "--json").document[0]
        assert status["edge_rt"] and status["disk_free_mib"] > 0
        ran(invoke, "board", "provision", "bed", "--remove")
        left = {path for path in there.everything() - before if not path.startswith("/data/edge/field")}
        assert left == {"/data/edge"}, "the releases stay"


def _kill_a_bench(bundle: Path, folder: Path, bed: RunningBed) -> None:
    """Kill this host's command while it measures: edge-rt on the board ends, whatever the SSH server does."""
    command = ("bench", str(bundle), "--board", "bed", "--time", "3000", "--timeout", "6000")
    lock = bed.root / "data/edge/state/measure.lock"

    def pid() -> str:
        found = re.search(r'"pid": (\d+)', lock.read_text()) if lock.exists() else None
        return found[1] if found else ""

    last = pid()
    with subprocess.Popen(
        [sys.executable, "-m", "toolchain", *command],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as host:
        until(lambda: pid() not in ("", last), what="that edge-rt measures")
        at_work = bed.root / "proc" / pid()
        assert at_work.exists()
        host.kill()
        host.wait()
        until(lambda: not at_work.exists(), what="that edge-rt ends")


def _deploy(invoke: Toolchain, bundle: Path, bed: RunningBed) -> None:
    ran(invoke, "release", "keygen", "-o", "anna", "--no-passphrase")
    ran(invoke, "release", "init", "--key", "anna")
    terms = ("--version", "1.0.0", "--app", "tiny", "--expires", date.today() + timedelta(days=30))
    ran(invoke, "release", "sign", bundle, "--key", "anna", *terms)
    deployed = ran(invoke, "deploy", bundle, "--board", "bed", "--trust", "trust.json", "--json").document
    assert [row["state"] for row in deployed["boards"]] == ["installed"]
    assert (bed.root / "data/edge/field/tiny/current/library.so").exists()
    planned = ran(invoke, "board", "provision", "bed", "--dry-run", "--json").document["steps"]
    assert [step["title"] for step in planned] == ["note its class, x86_64, for releases that come as a file"]
    ran(invoke, "board", "provision", "bed")
    ran(invoke, "release", "export", bundle, "--trust", "trust.json", "-o", "tiny.release")
    file = "/data/edge/tiny.release"
    (bed.root / file[1:]).write_bytes((bundle.parents[1] / "tiny.release").read_bytes())
    command = ("./edge-rt", "install", "tiny.release", "--field", "field", "--state", "state")
    assert '"end": "unchanged"' in ran(invoke, "board", "exec", "bed", "--", *command).out
    (bed.root / file[1:]).unlink()

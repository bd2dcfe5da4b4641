"""A user's program as a service of systemd: its units, and one on a machine, which serves inferences."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.boards.provisioning.systemd_machine import Machine, systemd_machine
from tests.boards.provisioning.test_steps import EMPTY
from tests.field.toy import APP
from tests.measuring.small_network import built
from tests.releases.real import real_board, real_release
from tests.runtime.test_serve_example import SHAPE, Client, compiled
from tests.waiting import until
from toolchain.boards.provisioning.facts import Facts, parse_facts
from toolchain.boards.provisioning.run import check_systemd, service_removal, service_steps
from toolchain.boards.provisioning.steps import BoardStep, RunCommand
from toolchain.boards.provisioning.units import Service, check_service, units_of
from toolchain.errors import UsageError
from toolchain.releases.export import export_release
from toolchain.runtime import ensure_runtime

SCRIPT = Path(__file__).parents[3] / "toolchain" / "boards" / "provisioning" / "facts.sh"
SERVICE = Service(APP, "/opt/serve/serve ${EDGE_CURRENT} " + SHAPE + " ${RUNTIME_DIRECTORY}/socket")


def test_systemd_understands_each_unit_and_finds_the_program_hardened(tmp_path: Path) -> None:
    for service in (
        replace(SERVICE, command="/bin/true '50 %' \"a 'b' c\" ${EDGE_CURRENT}"),
        replace(SERVICE, command="/bin/true", on_activation="reload", watchdog_s=30, network=True),
        replace(SERVICE, command="/bin/true", on_activation="nothing"),
    ):
        units = units_of(service, "/home/edge/.edge-toolchain", "daemon", devices=False)
        for name, text in units.items():
            (tmp_path / name).write_text(text.replace("/home/edge/.edge-toolchain/edge-rt", "/bin/true"))
        files = [tmp_path / name for name in units]
        done = subprocess.run(
            ["systemd-analyze", "verify", *files], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        exposed = ["systemd-analyze", "security", "--offline=yes", "--threshold=25", files[0]]
        assert subprocess.run(exposed, capture_output=True, timeout=60).returncode == 0, "more than 2.5 of 10"


def test_units_that_are_there_are_left_alone_and_others_are_replaced_or_removed() -> None:
    steps = service_steps(EMPTY, SERVICE, devices=False)
    assert [step.needs_root for step in steps] == [True, True]
    action = steps[0].action
    assert isinstance(action, RunCommand)
    names, texts = action.argv[4::2], action.argv[5::2]
    assert set(names) == set(units_of(SERVICE, EMPTY.root, EMPTY.user, devices=False))
    digests = {
        name: subprocess.run(["sha256sum"], input=text.encode(), capture_output=True, check=True)
        .stdout[:64]
        .decode()
        for name, text in zip(names, texts, strict=True)
    }
    there = replace(EMPTY, units=digests)
    assert service_steps(there, SERVICE, devices=False) == []
    assert service_steps(there, replace(SERVICE, memory_mib=64), devices=False)
    assert service_steps(replace(EMPTY, units=digests | {names[0]: "unfinished"}), SERVICE, devices=False)
    fewer = service_steps(there, replace(SERVICE, on_activation="nothing"), devices=False)
    assert fewer[0].title == "stop and remove edge-toy-activated.path, edge-toy-activated.service"
    assert service_steps(there, None, devices=False) == []
    assert "edge-toy.service" in service_removal(there)[0].title


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (EMPTY, "does not run systemd"),
        (replace(EMPTY, systemd=True, user="root"), "would run as root"),
        (replace(EMPTY, systemd=True, root="/opt/a b"), "cannot watch /opt/a b"),
    ],
)
def test_refuses_service_without_systemd(facts: Facts, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_systemd("bench", facts, SERVICE)


@pytest.mark.parametrize(
    ("service", "says"),
    [
        (replace(SERVICE, app="Counter"), "not the name of an app"),
        (replace(SERVICE, command="serve"), "begins with /"),
        (replace(SERVICE, command="/bin/serve 'a"), "No closing quotation"),
        (replace(SERVICE, command="/bin/serve a\n[Service]\nUser=root"), "control characters"),
    ],
)
def test_refuses_command_that_systemd_cannot_run(service: Service, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_service(service)


def facts_of(machine: Machine) -> Facts:
    """Ask the machine as `board provision` does, as the account edge."""
    ask = ["runuser", "-u", "edge", "--", "env", "HOME=/home/edge", "sh", "-s", "--", "/home/edge/edge", ""]
    before = time.time()
    done = machine.run(ask, SCRIPT.read_bytes())
    return parse_facts("machine", done.stdout.decode(), before, time.time())


def do(machine: Machine, steps: list[BoardStep]) -> None:
    for step in steps:
        assert isinstance(step.action, RunCommand) and step.needs_root
        machine.checked(*step.action.argv)


@pytest.mark.full  # it needs root, for a machine of its own
def test_a_service_starts_serves_the_new_release_and_is_removed(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("old", "new")]
    for folder in folders:
        folder.mkdir()
    releases = [built("local", folders[0]), built("local", folders[1], flipped=0)]
    with systemd_machine(tmp_path) as machine:
        machine.checked("useradd", "--create-home", "edge")
        program = machine.root / "opt" / "serve"
        program.mkdir(parents=True)
        shutil.copy(ensure_runtime("x86_64").library, program)
        compiled(program / "serve", "$ORIGIN")
        board = real_board(tmp_path / "board")
        shutil.copy(board.program[0], board.folder / "edge-rt")
        for number, bundle in enumerate(releases):
            release = real_release(bundle, tmp_path, f"{number + 1}.0.0")
            export_release(release, None, board.folder / f"{number}.edge")
        shutil.copytree(board.folder, machine.root / "home/edge/edge")
        machine.checked("chown", "-R", "edge", "/home/edge/edge")
        do(machine, service_steps(facts_of(machine), SERVICE, devices=False))
        state = machine.checked("systemctl", "show", "-P", "ActiveState", "edge-toy.service")
        assert state == "inactive", "nothing is released yet"

        (sample,) = releases[0].sample.values()
        expected = [np.concatenate([v.ravel() for v in b.expected.values()]) for b in releases]
        client = Client(machine.root / "run/edge-toy/socket", sample.tobytes(), expected)

        def answers(release: int) -> bool:
            client.ask_once()
            return client.answers[-1:] == [release]

        for number in (0, 1):
            install = ["/home/edge/edge/edge-rt", "install", f"/home/edge/edge/{number}.edge"]
            field = "/home/edge/edge/field"
            machine.checked("runuser", "-u", "edge", "--", *install, "--field", field)
            until(lambda: answers(number), what="an answer of the release")  # noqa: B023
        pid = machine.checked("systemctl", "show", "-P", "MainPID", "edge-toy.service")
        status = (machine.root / "proc" / pid / "status").read_text().split()
        assert status[status.index("NoNewPrivs:") + 1] == "1"
        assert status[status.index("CapBnd:") + 1] == "0" * 16
        assert status[status.index("Uid:") + 1] == machine.checked("id", "-u", "edge")

        facts = facts_of(machine)
        assert service_steps(facts, SERVICE, devices=False) == []
        do(machine, service_removal(facts))
        assert facts_of(machine).units == {}
        assert not list((machine.root / "etc/systemd/system").glob("**/*edge-toy*"))
        assert not (machine.root / "proc" / pid).exists()

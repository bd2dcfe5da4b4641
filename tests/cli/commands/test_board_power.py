"""`toolchain board power`, `show` and `status` for a board with power commands, behind a real sshd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.boards.power.supply import Supply, supplied
from tests.boards.ssh.sshd import Sshd, free_port, sshd
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.waiting import until
from toolchain.boards.edge_rt.install import user_at_host
from toolchain.boards.power import cycles as answers
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration

WORD = "s3cret"
KEY = "ssh-ed25519 " + b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()


def write(folder: Path, power: str, **changed: object) -> None:
    """Write the entry of a board `rk`, which nobody reaches unless an address is given."""
    away = {"port": free_port(), "host_key": KEY}
    entry = {"class": "x86_64", "host": "127.0.0.1", **away, **changed}
    lines = ["[boards.rk]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    (folder / FILE_NAME).write_text("\n".join([*lines, f"power = {power}" if power else "", ""]))
    configuration.cache_clear()


@dataclass
class Rack:
    """A board `rk` behind a server with a supply, in the toolchain.toml of the commands' folder."""

    server: Sshd
    supply: Supply

    def write(self, folder: Path) -> None:
        """Write the board's entry; its power commands hold a secret."""
        words = {action: self.supply.argv(action, WORD) for action in ("on", "off")}
        values = {"pause_s": 0, "boot_s": 30, **words}
        listed = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        write(
            folder,
            f"{{{listed}}}",
            port=self.server.port,
            host_key=self.server.host_key,
            identity=str(self.server.identity),
            root=str(self.server.root),
        )


@pytest.fixture
def rack(folder: Path, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rack]:
    assert not state.exists()
    monkeypatch.setattr(answers, "SETTLE_S", 0.2)
    with ExitStack() as stack:
        server = stack.enter_context(sshd(tmp_path / "sshd"))
        rack = Rack(server, stack.enter_context(supplied(server, server.root)))
        rack.write(folder)
        yield rack


@pytest.mark.slow
def test_a_board_is_switched_off_on_and_cycled(rack: Rack, invoke: Toolchain) -> None:
    off = invoke("board", "power", "off", "rk", "--json")
    assert off.code == 0, off.err
    assert off.document.keys() == {"board", "action", "seconds", "answered_s", "restarted"}
    assert (off.document["board"], off.document["action"], off.document["answered_s"]) == ("rk", "off", None)
    status = invoke("board", "status", "rk")
    assert status.code == 1 and "hint: `toolchain board power cycle rk`" in status.out
    on = invoke("board", "power", "on", "rk", "--json").document
    assert 0 <= on["answered_s"] < 30 and on["restarted"] is None, "nothing is known of the boot before"
    cycled = invoke("board", "power", "cycle", "rk")
    assert cycled.code == 0 and "rk: cycle took" in cycled.out and "; it answers after" in cycled.out
    # The kernel of this board is this machine's: it is right that it has not been restarted.
    assert cycled.says("warning: rk has not been restarted since", "the right outlet")
    assert rack.supply.switched == ["off", "on", "off", "on"]
    assert invoke("board", "status", "rk", "--json").document[0]["power"] is True
    assert WORD not in "".join(each.out + each.err for each in (off, status, cycled))


@pytest.mark.slow
def test_reports_board_that_stays_silent(rack: Rack, invoke: Toolchain) -> None:
    (rack.server.folder / "broken").touch()
    ran = invoke("board", "power", "cycle", "rk", "--wait", "0.5", "--json")
    assert ran.code == 1
    error = ran.document["error"]
    assert error["message"].startswith("board rk did not answer within 0.5 s after it was switched: ")
    at_once = invoke("board", "power", "on", "rk", "--no-wait", "--json")
    assert at_once.code == 0 and at_once.document["answered_s"] is None


@pytest.mark.usefixtures("state")
def test_show_names_the_programs_and_nothing_else(folder: Path, invoke: Toolchain) -> None:
    write(folder, f'{{on = ["/opt/relay", "{WORD}"], off = "pdu --password {WORD} off"}}')
    shown = invoke("board", "show", "rk", "--json")
    assert shown.document["power"] == {"on": "relay", "off": "pdu", "cycle": None}
    plain = invoke("board", "show", "rk", "-v", "-v")
    assert "on=relay off=pdu cycle=-" in plain.out
    assert WORD not in shown.out + plain.out + plain.err


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("power", "arguments", "code", "says"),
    [
        ("", ["off", "local"], 2, ["local is this machine"]),
        ("", ["off", "x86_64"], 2, ["x86_64 is no board but a class", "such as rk"]),
        ("", ["off", "nosuch"], 2, ["nosuch"]),
        ('{cycle = ["true"]}', ["off", "rk"], 2, ["no command to switch it off"]),
        (f'{{cycle = ["no-such-relay", "{WORD}"]}}', ["cycle", "rk"], 3, ["there is no such program"]),
        (f'{{cycle = ["sh", "-c", "echo wrong >&2; exit 3", "{WORD}"]}}', ["cycle", "rk"], 1, ["3: wrong"]),
        ('{cycle = ["sleep", "600"]}', ["cycle", "rk", "--timeout", "0.2"], 1, ["within 0.2 s"]),
        (f'{{on = ["{WORD}"]}}', ["on", "rk"], 2, ["`on` is there without `off`"]),
    ],
)
def test_refuses_boards_that_are_not_switched(
    invoke: Toolchain, folder: Path, power: str, arguments: list[str], code: int, says: list[str]
) -> None:
    write(folder, power)
    refused(invoke, folder, code, says, "board", "power", *arguments)
    assert WORD not in invoke("board", "power", *arguments, "-v", "-v").err


@pytest.mark.usefixtures("state")
def test_a_board_without_power_commands_is_told_what_to_write(invoke: Toolchain, folder: Path) -> None:
    write(folder, "")
    refused(
        invoke, folder, 2, ["board rk has no power commands", "[boards.rk]"], "board", "power", "off", "rk"
    )
    assert invoke("board", "show", "rk", "--json").document["power"] is None


@pytest.mark.slow
def test_an_emulated_board_is_refused(invoke: Toolchain, folder: Path, state: Path) -> None:
    assert not state.exists()
    invoke("board", "emulate", "start", "x86_64", "--kind", "process", "--name", "e")
    refused(invoke, folder, 2, ["board e is emulated", "emulate stop e"], "board", "power", "cycle", "e")


@pytest.mark.slow
def test_a_board_on_which_somebody_measures_is_left_on(rack: Rack, invoke: Toolchain) -> None:
    # What stands in the lock of a process that was killed says nothing.
    lock = rack.server.root / "state" / "measure.lock"
    lock.parent.mkdir()
    dead = subprocess.Popen(["true"])
    dead.wait(60)
    lock.write_text(f'{{"pid": {dead.pid}, "what": "bench"}}\n')
    assert invoke("board", "power", "off", "rk").code == 0
    assert invoke("board", "power", "on", "rk").code == 0
    program = rack.server.folder / "edge-rt"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "600"]) as measuring:
        try:
            lock.write_text(f'{{"pid": {measuring.pid}, "what": "bench of a network"}}\n')
            for action in ("off", "cycle"):
                ran = invoke("board", "power", action, "rk")
                assert ran.code == 1
                assert ran.says("board rk is not switched", "bench of a network", "measures", "--force")
            assert rack.supply.switched == ["off", "on"]
            assert invoke("board", "power", "cycle", "rk", "--force").code == 0
        finally:
            measuring.kill()
    assert rack.supply.switched == ["off", "on", "off", "on"]


@pytest.mark.slow
def test_a_board_that_edge_rt_measures_is_left_on(rack: Rack, invoke: Toolchain, folder: Path) -> None:
    argv = [sys.executable, "-m", "toolchain", "board", "probe", "rk", "--json"]
    lock = rack.server.root / "state" / "measure.lock"
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE) as probing:
        until(lambda: lock.exists() and lock.read_text())
        measuring = json.loads(lock.read_text())["pid"]
        os.kill(measuring, signal.SIGSTOP)  # else it may have ended before it is looked for
        try:
            ran = invoke("board", "power", "off", "rk")
        finally:
            os.kill(measuring, signal.SIGCONT)
        probe = f"probe for {user_at_host()} (process"
        assert ran.code == 1 and ran.says("board rk is not switched", probe, "measures")
        assert probing.wait(60) == 0, "nothing disturbed it"
    assert rack.supply.switched == []


@pytest.mark.slow
def test_a_board_that_the_lab_has_lent_is_left_on(rack: Rack, invoke: Toolchain) -> None:
    from toolchain.boards.inventory.lookup import find_boards
    from toolchain.rpc import lab
    from toolchain.rpc.frames import HOST
    from toolchain.rpc.session import open_session

    try:
        started = lab.start(find_boards("rk"))
        session = open_session(HOST, started.port, "x86_64@rk", 60, 10)
        until(lambda: lab.status().leases)
        ran = invoke("board", "power", "cycle", "rk")
        assert ran.code == 1 and ran.says("has leased rk from the lab", "--force")
        assert rack.supply.switched == []
        del session
        until(lambda: not lab.status().leases)
        assert invoke("board", "power", "cycle", "rk").code == 0
        until(lambda: lab.status().boards["rk"].state == "serving")
    finally:
        lab.stop()

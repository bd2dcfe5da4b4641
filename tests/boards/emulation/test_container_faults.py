"""What a user reads, and what is left, when a board that is a system of its own fails: an arm64 container.

Everything goes through the command line in a folder with a `toolchain.toml`, as it does for a user. The
board `box` is the emulated one; entries of the file lead to the same container, some through a proxy.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.boards.emulation.board_at_fault import ROOT, Bench, Ended
from tests.boards.ssh.proxy import proxy
from tests.boards.ssh.sshd import make_key
from tests.building.network import written
from tests.waiting import until
from toolchain.backends.table import backend_for
from toolchain.boards.edge_rt.status import statuses
from toolchain.boards.emulation import containers, emulated
from toolchain.boards.inventory.lookup import find_board, find_boards, local_board
from toolchain.boards.ssh import connection
from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.hostkeys import fingerprint
from toolchain.boards.ssh.transport import SshTransport
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError
from toolchain.images.engine import connect
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.events import Event, Notice, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.tune import tune

pytestmark = pytest.mark.slow

PASSWORD = "correct horse"  # noqa: S105 - of an account in a container on loopback
NOTICED_S = 60  # 2 s until the first question, 15 s of silence, and a busy host; an upload has 64 s
FREE = {"total": 1, "free": 1, "pending": 0}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    import numpy as np

    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch, connect() as engine:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(folder / "state"))
        patch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
        patch.chdir(folder)
        configuration.cache_clear()
        board = emulated.start("rk3399", "container", name="box")
        (container,) = (
            each
            for each in engine.containers(containers.PURPOSE)
            if each.labels["edge-toolchain.state"] == str(folder / "state")
        )
        try:
            assert isinstance(board.transport, SshTransport)
            np.save(folder / "x.npy", np.zeros((1, 3, 12, 12), "float32"))
            written(folder)
            bundle = folder / "out" / "residual-rk3399.bundle"
            made = Bench(engine, container.id, folder, bundle, board.transport.address)
            built = made.ran("build", "residual.onnx", "--board", "rk3399", "-o", "out")
            assert built.code == 0, built.err
            yield made
        finally:
            lab.stop()
            engine.remove(container.id)
            configuration.cache_clear()


@pytest.fixture(autouse=True)
def tidy(bench: Bench) -> Iterator[None]:
    """Have every test begin without boards in the file, and leave neither programs nor half files."""
    (bench.folder / FILE_NAME).write_text("")
    configuration.cache_clear()
    yield
    until(lambda: bench.programs() == [] and bench.parts() == [])
    assert lab.status() is None
    assert [p.cmdline() for p in psutil.Process().children(recursive=True) if _is_ours(p)] == []


def _is_ours(process: psutil.Process) -> bool:
    try:
        return process.name() == "ssh" or "toolchain" in process.cmdline()
    except psutil.Error:
        return False


def test_a_new_host_key_is_refused_with_both_fingerprints(bench: Bench) -> None:
    file = "/etc/ssh/ssh_host_ed25519_key"
    bench.inside(f"mkdir /root/key && mv {file}* /root/key && ssh-keygen -q -t ed25519 -N '' -f {file}")
    try:
        bench.reload()
        other = fingerprint(" ".join(bench.inside(f"cat {file}.pub").split()[:2]))
        refused = bench.ran(*bench.run_of("box"))
        assert refused.code == 2 and refused.says("the host key of 127.0.0.1 has changed", "emulate stop box")
        assert refused.says(fingerprint(bench.address.host_key), other), "both are named"
    finally:
        bench.inside("mv /root/key/* /etc/ssh && rmdir /root/key")
        bench.reload()


def test_a_wrong_key_is_refused(bench: Bench) -> None:
    make_key(bench.folder / "wrong")
    bench.enter("bench", identity="wrong")
    refused = bench.ran("board", "exec", "bench", "--", "true")
    assert refused.code == 2 and refused.says("none of your keys is accepted", "wrong", "--install-key")


def test_an_ssh_server_that_is_slow_is_waited_for_and_one_that_is_stuck_given_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.inside("kill -STOP $(cat /run/sshd.pid)")
    try:
        slow = bench.begin("board", "exec", "box", "--", "echo", "there")
        time.sleep(2.5)
        assert slow.poll() is None
        monkeypatch.setattr(connection, "HANDSHAKE_S", 1.0)
        begun = time.monotonic()
        with pytest.raises(ToolchainError, match=r"no SSH server answered within 1 s"):
            find_board("box").transport.run(["true"])
        assert time.monotonic() - begun < 60
    finally:
        bench.inside("kill -CONT $(cat /run/sshd.pid)")
    assert bench.ended(slow) == Ended(0, "there\n", "")


def test_a_frozen_board_is_told_whatever_goes_on_and_delays_no_other(bench: Bench) -> None:
    with proxy(bench.address.port) as link:
        bench.enter("far", port=link.port)
        transport = SshTransport(_address("far"), ROOT)
        transport.put(b"old", "lib/x")
        link.rate = 1e6
        failures: list[BaseException] = []
        upload = threading.Thread(target=_noting, args=(failures, transport.put, bytes(64 << 20), "lib/x"))
        with bench.measuring() as measuring:
            running = bench.begin("board", "exec", "box", "--", "sleep", "100")
            upload.start()
            until(lambda: len(bench.parts()) == 1 and "sleep 100" in _all(bench))
            with bench.frozen():
                begun = time.monotonic()
                came = statuses([find_board("box"), local_board()])
                assert next(came).name == "local" and time.monotonic() - begun < NOTICED_S
                for process in (measuring, running):
                    lost = bench.ended(process, NOTICED_S)
                    assert lost.code == 1
                    assert lost.says("board box: the connection was lost: nothing was heard from it for")
                upload.join(NOTICED_S)
                assert time.monotonic() - begun < NOTICED_S
                assert "lib/x was not replaced" in str(failures[0])
        assert [answer.name for answer in came] == ["box"]
        until(lambda: bench.parts() == [] and bench.programs() == [] and "sleep 100" not in _all(bench))
        assert bench.inside(f"cat {ROOT}/lib/x; rm {ROOT}/lib/x") == "old"
        assert transport.run(["echo", "again"]).stdout == b"again\n"
        transport.close()


def _address(board: str) -> SshAddress:
    transport = find_board(board).transport
    assert isinstance(transport, SshTransport)
    return transport.address


def _all(bench: Bench) -> str:
    return "\n".join(bench.engine.programs(bench.container))


def _noting(failures: list[BaseException], work: Callable[..., object], *arguments: object) -> None:
    try:
        work(*arguments)
    except ToolchainError as error:
        failures.append(error)


def test_a_board_that_is_frozen_while_it_is_tuned_is_waited_for(bench: Bench) -> None:
    model = load_model(str(bench.folder / "residual.onnx"), ModelOptions())
    how = TuneOptions(trials=4, heaviest=1, repeat=2, min_repeat_ms=1, timeout_s=10)
    events: list[Event] = []
    thaw = ExitStack()

    def freeze_until_it_is_missed(event: Event) -> None:
        events.append(event)
        if isinstance(event, Notice) and "board box is away" in event.text:
            thaw.close()
        elif isinstance(event, Trial) and not any(isinstance(each, Trial) for each in events[:-1]):
            bench.engine.pause(bench.container)
            thaw.callback(bench.engine.unpause, bench.container)

    with thaw, RecordStore(bench.folder / "frozen.sqlite") as store:
        backend = backend_for(load_profile("rk3399"), CodeOptions())
        result = tune(model, backend, [find_board("box")], store, how, freeze_until_it_is_missed)
    assert (result.to_json()["trials"], result.to_json()["failed"]) == (4, 0)
    assert any("board box is away" in event.text for event in events if isinstance(event, Notice))


def test_a_board_that_lost_its_power_is_told_and_goes_on_when_it_is_back(bench: Bench) -> None:
    running = bench.begin("board", "exec", "box", "--", "sh", "-c", "echo begun >&2; touch begun; sleep 100")
    until(lambda: bench.inside(f"ls {ROOT}").count("begun") == 1)
    bench.engine.kill(bench.container)
    lost = bench.ended(running, NOTICED_S)
    assert lost.code == 1 and lost.says("board box: the connection was lost"), lost.err
    away = bench.ran(*bench.run_of("box"))
    assert away.code == 1 and away.says("board box: cannot reach 127.0.0.1", "Connection refused"), away.err
    again = bench.ran("board", "emulate", "start", "rk3399", "--kind", "container", "--name", "box")
    assert again.code == 0, again.err
    assert bench.ran(*bench.run_of("box")).code == 0
    bench.inside(f"rm {ROOT}/begun")


@pytest.mark.parametrize(
    ("break_it", "mend_it", "says"),
    [
        ("chmod 555 lib", "chmod 755 lib", "Permission denied"),
        (
            "mkdir /dev/shm/lib; chown edge /dev/shm/lib; mv lib kept; ln -s /dev/shm/lib lib;"
            "head -c 67100000 /dev/zero > /dev/shm/fill",
            "rm lib; mv kept lib; rm -r /dev/shm/lib /dev/shm/fill",
            "No space left on device",
        ),
    ],
    ids=["read-only", "full"],
)
def test_a_folder_that_takes_no_file_is_told(bench: Bench, break_it: str, mend_it: str, says: str) -> None:
    bench.inside(f"cd {ROOT}; mkdir -p lib; chown edge lib; rm -f lib/*; {break_it}")
    try:
        refused = bench.ran(*bench.run_of("box"))
        assert refused.code == 1 and refused.says("board box: cannot write lib/", says, "nothing was left")
        assert bench.inside(f"ls -A {ROOT}/lib/") == ""
    finally:
        bench.inside(f"cd {ROOT}; {mend_it}")
    assert bench.ran(*bench.run_of("box")).code == 0


def test_a_clock_that_is_years_off_stops_provisioning_and_no_run(bench: Bench) -> None:
    wrong = "/usr/local/bin/date"
    fake = '#!/bin/sh\\nexec /usr/bin/date -d "10 years ago" "$@"\\n'
    bench.inside(f"mkdir -p /usr/local/bin; printf '{fake}' > {wrong}; chmod 755 {wrong}")
    try:
        refused = bench.ran("board", "provision", "box")
        assert refused.code == 1 and refused.says("clock of board box is 10 years behind", "--ignore-clock")
        allowed = bench.ran("board", "provision", "box", "--ignore-clock")
        assert allowed.code == 0 and "10 years behind" in allowed.out
        assert bench.ran(*bench.run_of("box")).code == 0
    finally:
        bench.inside(f"rm {wrong}")


def test_another_machine_or_an_older_system_than_the_classes_is_left_untouched(bench: Bench) -> None:
    bench.enter("bench", **{"class": "pynq", "root": "fresh"})
    refused = bench.ran("board", "provision", "bench")
    assert refused.code == 1 and refused.says("board bench is a aarch64 machine", "pynq is armv7")
    own = bench.folder / "boards" / "modern"
    own.mkdir(parents=True)
    profile = Path(__file__).parents[3] / "boards" / "rk3399" / "board.toml"
    (own / "board.toml").write_text(profile.read_text().replace('glibc = "2.27"', 'glibc = "2.41"'))
    bench.enter("bench", **{"class": "modern", "root": "fresh"})
    refused = bench.ran("board", "provision", "bench")
    assert refused.code == 1 and refused.says("glibc 2.36", "class modern needs 2.41")
    assert "fresh" not in bench.inside("ls /home/edge")


def test_a_tunnel_that_is_cut_is_dug_again(bench: Bench) -> None:
    with proxy(bench.address.port) as link:
        bench.enter("far", port=link.port)
        lab.start([local_board(), *find_boards("far")])
        try:
            before = bench.programs()
            link.cut()
            until(lambda: lab.status().boards["far"].state == "away")
            assert lab.status().keys["local"] == FREE
            until(lambda: lab.status().boards["far"].state == "serving")
            assert lab.status().keys == {"local": FREE, "rk3399": FREE}
            assert not set(before) & set(bench.programs()), "one more server, and the old one stays"
        finally:
            lab.stop()


def test_two_hosts_take_turns_and_ctrl_c_lets_the_next_one_in(bench: Bench, tmp_path: Path) -> None:
    bench.enter("bench")
    before = bench.runs()
    other = {"TOOLCHAIN_STATE_DIR": str(tmp_path / "state")}
    with bench.measuring() as measuring:
        refused = bench.ran(*bench.run_of("bench"), **other)
        assert refused.code == 1 and refused.says("board bench is busy: bench", "holds it", "--wait 60")
        waiting = bench.begin(*bench.run_of("bench"), "--wait", 60, **other)
        until(lambda: any(" run " in line for line in bench.programs()))
        measuring.send_signal(signal.SIGINT)
        ended = bench.ended(measuring)
        assert ended.code == 130 and ended.says("interrupted")
        assert bench.ended(waiting).code == 0
    assert bench.runs() == before and bench.programs() == []


def test_ctrl_c_during_an_upload_leaves_nothing(bench: Bench) -> None:
    with proxy(bench.address.port) as link:
        bench.enter("far", port=link.port)
        bench.inside(f"rm -rf {ROOT}/lib/* {ROOT}/lib/.*.part")
        before = set(bench.runs())
        link.rate = 1e3  # its 18 kB take longer than any look at the board
        uploading = bench.begin(*bench.run_of("far"))
        until(lambda: any("/lib/" in part for part in bench.parts()))
        uploading.send_signal(signal.SIGINT)
        ended = bench.ended(uploading)
    assert ended.code == 130 and ended.says("interrupted")
    until(lambda: bench.inside(f"ls -A {ROOT}/lib") == "" and set(bench.runs()) <= before)


def test_ctrl_c_during_tuning_keeps_what_was_measured_and_leaves_nothing(bench: Bench) -> None:
    quick = ("--repeat", 1, "--min-repeat-ms", 1)
    tuning = bench.begin("tune", "residual.onnx", "--board", "box", "--trials", 64, *quick)
    assert tuning.stderr is not None
    said = []
    for line in tuning.stderr:
        said.append(line)
        if " a call" in line and "default" not in line:
            break
    tuning.send_signal(signal.SIGINT)
    ended = bench.ended(tuning, 120)  # what is in flight comes to its end
    assert ended.code == 130, [*said, ended]
    kept = bench.ran("records", "list", "--json")
    assert kept.code == 0 and json.loads(kept.out), said


def test_a_password_is_used_once_to_bring_the_key_there(bench: Bench) -> None:
    make_key(bench.folder / "new")
    allowed = "/etc/ssh/sshd_config.d/password.conf"
    keys = "/home/edge/.ssh/authorized_keys"
    bench.inside(
        f"echo 'edge:{PASSWORD}' | chpasswd; cp -p {keys} /root;echo 'PasswordAuthentication yes' > {allowed}"
    )
    bench.reload()
    try:
        host = f"edge@127.0.0.1:{bench.address.port}"
        argv = bench.command("board", "add", host, "--class", "rk3399", "--name", "asked", "--install-key")
        argv += ["--identity", "new", "--fingerprint", fingerprint(bench.address.host_key)]
        said = _answered(argv, bench.folder, "used once, not kept", PASSWORD)
        assert "next: toolchain board provision asked" in " ".join(said.split())
        assert PASSWORD not in said + (bench.folder / FILE_NAME).read_text()
        assert bench.ran("board", "exec", "asked", "--", "true").code == 0
    finally:
        bench.inside(f"rm {allowed}; mv /root/authorized_keys {keys}; usermod -p '*' edge")
        bench.reload()


def _answered(argv: list[str], folder: Path, question: str, answer: str) -> str:
    """Run a command in a terminal that answers one question; return all that was shown."""
    ours, its = pty.openpty()
    with subprocess.Popen(argv, cwd=folder, stdin=its, stdout=its, stderr=its, start_new_session=True) as ran:
        os.close(its)
        said, answered = b"", False
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(ours, 4096):
                said += data
                if not answered and question in said.decode(errors="replace"):
                    os.write(ours, answer.encode() + b"\n")
                    answered = True
        assert ran.wait(60) == 0, said
    os.close(ours)
    return said.decode()

"""`toolchain board add`, `status`, `exec`, `remove` against a real sshd."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.ssh.proxy import proxy
from tests.boards.ssh.sshd import Sshd, make_key, sshd
from tests.cli.running import Toolchain
from toolchain.boards.edge_rt.status import Status, statuses
from toolchain.boards.emulation import stored
from toolchain.boards.emulation.containers import ContainerBoard
from toolchain.boards.inventory.lookup import find_boards
from toolchain.boards.ssh.hostkeys import fingerprint
from toolchain.cli.commands.board_status import _line
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd"), "PasswordAuthentication yes") as running:
        yield running


def add(server: Sshd, *options: str) -> list[str]:
    host = f"127.0.0.1:{server.port}"
    return ["board", "add", host, "--class", "x86_64", "--identity", str(server.identity), *options]


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_board_is_added_used_and_removed(server: Sshd, invoke: Toolchain, folder: Path) -> None:
    (folder / FILE_NAME).write_text("# mine\n")
    key = fingerprint(server.host_key)
    ran = invoke(*add(server, "--name", "one", "--fingerprint", key, "--group", "desk", "--json"))
    assert ran.code == 0, ran.err
    assert ran.document["name"] == "one" and ran.document["groups"] == ["desk"]
    shown = invoke("board", "show", "one", "--json").document
    assert (shown["fingerprint"], shown["address"]) == (key, f"127.0.0.1:{server.port}")
    again = invoke(*add(server, "--name", "one", "--yes"))
    assert again.code == 2 and again.says("already a board one", "--name one-2")
    missing = invoke("board", "exec", "one", "--", "true")
    assert missing.code == 1 and missing.says("board one: its folder", "toolchain board provision one")
    text = (folder / FILE_NAME).read_text()
    (folder / FILE_NAME).write_text(text + f'root = "{server.root}"\n')
    configuration.cache_clear()
    ended = invoke("board", "exec", "one", "--", "sh", "-c", "echo $PWD; echo e >&2; exit 3")
    assert (ended.code, ended.out, ended.err) == (3, f"{server.root}\n", "e\n")
    assert invoke("board", "exec", "one", "--json", "--", "sh", "-c", "kill -9 $$").code == 137
    theirs = invoke("board", "exec", "one", "--", "echo", "hello", "--json")
    assert (theirs.code, theirs.out) == (0, "hello --json\n")
    status = invoke("board", "status", "one", "--json").document[0]
    assert status["error"] is None and status["load_1min"] >= 0 and status["disk_free_mib"] > 0
    assert status["edge_rt"] is None and "cpu" in status["devices"]
    assert invoke("board", "remove", "one").code == 0
    gone = invoke("board", "remove", "one")
    assert gone.code == 2 and gone.says("no board 'one'")
    assert (folder / FILE_NAME).read_text().startswith("# mine\n")


@pytest.mark.usefixtures("state")
def test_untrusted_host_key_is_not_added(server: Sshd, invoke: Toolchain, folder: Path) -> None:
    other = invoke(*add(server, "--fingerprint", "SHA256:abc"))
    assert other.code == 2 and other.says("--fingerprint SHA256:abc", fingerprint(server.host_key))
    unknown = invoke("board", "add", "host", "--class", "rk3999")
    assert unknown.code == 2 and unknown.says("no board class 'rk3999'")
    lost = invoke("board", "add", "127.0.0.1:1", "--class", "x86_64", "--yes")
    assert lost.code == 1 and lost.says("cannot reach 127.0.0.1 port 1", "Connection refused")
    stranger = invoke("board", "add", f"127.0.0.1:{server.port}", "--class", "x86_64", "--yes")
    assert stranger.code == 2 and stranger.says("you have no key", "--install-key")
    assert not (folder / FILE_NAME).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "answers", "code", "says"),
    [
        ((), ["Is that the board's? [y/N]", "n"], 2, "was not accepted"),
        ((), ["Is that the board's? [y/N]", "y"], 0, "next: toolchain board provision"),
        (
            ("--install-key", "--yes", "--identity", "nobody"),
            ["used once, not kept", "wrong"],
            2,
            "was refused",
        ),
    ],
)
def test_questions_are_asked_on_a_terminal(
    server: Sshd,
    state: Path,
    folder: Path,
    options: tuple[str, ...],
    answers: list[str],
    code: int,
    says: str,
) -> None:
    assert state
    if "--identity" in options:
        subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", folder / "nobody"], check=True, timeout=60)
    ours, its = pty.openpty()
    argv = [sys.executable, "-m", "toolchain", *add(server, "--name", "asked", *options)]
    with subprocess.Popen(argv, cwd=folder, stdin=its, stdout=its, stderr=its, start_new_session=True) as ran:
        os.close(its)
        said = b""
        answered = False
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            said += data
            if not answered and answers[0] in said.decode(errors="replace"):
                os.write(ours, answers[1].encode() + b"\n")
                answered = True
        assert ran.wait(60) == code, said
    os.close(ours)
    assert answered and says in " ".join(said.decode().split())
    assert b"wrong" not in said, "a password is not shown"


@pytest.mark.usefixtures("state")
@pytest.mark.slow
def test_a_dead_board_delays_no_other(
    server: Sshd, invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolchain.boards.ssh.connection.HANDSHAKE_S", 6.0)
    with proxy(server.port) as silent:
        silent.delay_s = 300
        entry = f'class = "x86_64"\nhost = "127.0.0.1"\nhost_key = "{server.host_key}"\n'
        (folder / FILE_NAME).write_text(
            f"[boards.dead]\n{entry}port = {silent.port}\n[boards.well]\n{entry}port = {server.port}\n"
            f'identity = "{server.identity}"\n'
        )
        begun = time.monotonic()
        came = [(answer.name, time.monotonic() - begun) for answer in statuses(find_boards("x86_64"))]
        assert [name for name, _ in came] == ["well", "dead"]
        assert came[1][1] < 60
        ran = invoke("board", "status", "dead", "well", "--json")
        assert ran.code == 1
        assert [board["name"] for board in ran.document] == ["dead", "well"]
        assert "no SSH server answered within 6 s" in ran.document[0]["error"]


def test_hints_stand_below_a_board_and_its_devices_say_that_they_are_emulated() -> None:
    driver = {"kind": "opencl", "names": ["pthread"], "details": []}
    answer = Status("bench", "rk3399", emulated=True, drivers=[driver], hints=["a", "b"])
    first, *hints = _line(answer, {"lab": None, "lab_user": None}).splitlines()
    assert "opencl emulated pthread" in first
    assert [hint.strip() for hint in hints] == ["hint: a", "hint: b"]
    assert Status("x", "y", hints=["a"]).to_json()["hints"] == ["a"]


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_new_host_key_is_pinned_and_the_rest_of_the_entry_stays(
    server: Sshd, invoke: Toolchain, folder: Path, tmp_path: Path
) -> None:
    old = make_key(tmp_path / "old")
    entry = (
        f'class = "x86_64"\nhost = "127.0.0.1"\nport = {server.port}\nhost_key = "{old}"\n'
        f'identity = "{server.identity}"\nroot = "{server.root}"\ngroups = ["desk"]  # mine\n'
    )
    power = 'power = { on = ["true"], off = ["true"] }\n'
    (folder / FILE_NAME).write_text(f"[boards.gpu0]\n{entry}{power}\n[boards.gpu1]\n{entry}")
    before = (folder / FILE_NAME).read_text()
    refused = invoke("board", "exec", "gpu0", "--", "true")
    assert refused.code == 2 and refused.says("has changed", "toolchain board repin gpu0")
    key = fingerprint(server.host_key)
    for options, code, says in (
        (("--yes",), 2, "whatever key is shown"),
        ((), 2, f"nobody to ask whether {key}"),
        (("--fingerprint", fingerprint(old)), 2, f"shows the host key {key}"),
    ):
        ran = invoke("board", "repin", "gpu0", *options)
        assert ran.code == code and ran.says(says)
        assert (folder / FILE_NAME).read_text() == before
    pinned = invoke("board", "repin", "gpu0", "--fingerprint", key, "--json")
    assert pinned.code == 0, pinned.err
    assert pinned.document["boards"] == ["gpu0", "gpu1"] and pinned.document["login_error"] is None
    assert (pinned.document["old"], pinned.document["new"]) == (fingerprint(old), key)
    assert (folder / FILE_NAME).read_text() == before.replace(old, server.host_key)
    configuration.cache_clear()
    assert invoke("board", "exec", "gpu1", "--", "true").code == 0
    again = invoke("board", "repin", "gpu0", "--json")
    assert again.code == 0 and not again.document["changed"]
    unknown = invoke("board", "repin", "nobody")
    assert unknown.code == 2 and unknown.says("the boards there are: gpu0, gpu1")


@pytest.mark.usefixtures("state", "folder")
def test_an_emulated_board_with_another_host_key_is_made_anew(
    server: Sshd, invoke: Toolchain, tmp_path: Path
) -> None:
    """Its key is no entry of toolchain.toml: there is nothing that `board repin` could change."""
    container = ContainerBoard(port=server.port, host_key=make_key(tmp_path / "old"), id="gone")
    box = stored.BoardState(
        name="box",
        board_class="rk3399",
        kind="container",
        container=container,
        device="opencl",
        groups=("desk",),
    )
    (stored.boards_folder() / "box").mkdir(parents=True)
    stored.write_state(stored.boards_folder() / "box", box)
    refused = invoke("board", "exec", "box", "--", "true")
    assert refused.code == 2 and refused.says("the host key of 127.0.0.1 has changed")
    assert "repin" not in refused.err
    anew = "emulate start rk3399 --kind container --name box --opencl --group desk`"
    assert refused.says("toolchain board emulate stop box", anew)
    pinned = invoke("board", "repin", "box")
    assert pinned.code == 2 and pinned.says("box is an emulated board", "toolchain board emulate stop box")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("way", ["paramiko", "openssh"])
def test_one_login_is_enough_to_add_a_board_or_to_pin_its_new_key(
    invoke: Toolchain, folder: Path, tmp_path: Path, way: str
) -> None:
    def logins() -> int:
        return (one.folder / "log").read_text().count("Accepted publickey")

    with sshd(tmp_path / "one") as one:
        assert invoke(*add(one, "--name", "one", "--yes", "--ssh", way)).code == 0
        assert logins() == 1
        text = (folder / FILE_NAME).read_text()
        (folder / FILE_NAME).write_text(text.replace(one.host_key, make_key(tmp_path / "old")))
        configuration.cache_clear()
        pinned = invoke("board", "repin", "one", "--fingerprint", fingerprint(one.host_key), "--json")
        assert (pinned.code, pinned.document["login_error"]) == (0, None)
        assert logins() == 2


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_reports_ssh_client_and_reason(invoke: Toolchain, folder: Path, tmp_path: Path) -> None:
    reason = "paramiko lacks algorithms of its server"
    with sshd(tmp_path / "new", "Ciphers chacha20-poly1305@openssh.com") as new:
        ran = invoke(*add(new, "--name", "one", "--yes", "--json"))
        assert ran.code == 0, ran.err
        assert (ran.document["ssh"], ran.document["reached_by"]) == ("auto", "openssh")
        assert ran.document["reached_reason"] == reason
        status = invoke("board", "status", "one", "--json").document[0]
        assert (status["error"], status["ssh"], status["ssh_reason"]) == (None, "openssh", reason)
        assert f"ssh openssh ({reason})" in invoke("board", "status", "one").out
        text = (folder / FILE_NAME).read_text()
        (folder / FILE_NAME).write_text(text + 'ssh = "paramiko"\n')
        configuration.cache_clear()
        lost = invoke("board", "status", "one", "--json").document[0]
        assert "wants what paramiko lacks" in lost["error"] and 'ssh = "openssh"' in lost["hint"]

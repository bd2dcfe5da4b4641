"""What the user's own ssh reaches, the toolchain reaches: by paramiko, or by the client."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.boards.local.left import pids
from tests.boards.ssh.beds import account, programs
from tests.boards.ssh.sshd import Sshd, make_key, sshd
from tests.boards.ssh.test_transport import owner
from tests.waiting import until
from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.authentication import RefusedError
from toolchain.boards.ssh.hostkeys import fingerprint
from toolchain.boards.ssh.route import resolve
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.ssh.ways import ask_host_key, client_reason
from toolchain.boards.transport import WayError
from toolchain.errors import UsageError

pytestmark = pytest.mark.slow


def reached(address: SshAddress, root: Path) -> str:
    """Run a command; return who spoke with the server, and why if it was the client."""
    board = SshTransport(address, str(root))
    try:
        assert board.run(["echo", "on"]).stdout == b"on\n"
        way = board.reached()
    finally:
        board.close()
    return f"{way.way} {way.reason}".strip()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path / "home"


@contextmanager
def agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run an agent that nobody can confirm a key to."""
    path = folder / "agent"
    surroundings = {**os.environ, "SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"}
    argv = ["ssh-agent", "-D", "-a", str(path)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=surroundings) as running:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        until(_agent_answers)
        try:
            yield path
        finally:
            running.terminate()


def _agent_answers() -> bool:
    return subprocess.run(["ssh-add", "-l"], capture_output=True, timeout=60, check=False).returncode != 2


def add_key(file: Path, *options: str) -> None:
    subprocess.run(["ssh-add", "-q", *options, file], check=True, timeout=60, capture_output=True)


@pytest.mark.parametrize(
    "option",
    [
        "Ciphers chacha20-poly1305@openssh.com",
        "KexAlgorithms sntrup761x25519-sha512@openssh.com",
        "KexAlgorithms curve25519-sha256",
    ],
)
def test_a_server_with_other_algorithms_than_paramikos_is_reached_by_the_client(
    tmp_path: Path, option: str
) -> None:
    with sshd(tmp_path / "sshd", option) as server:
        address = server.address(ssh="auto")
        assert ask_host_key(replace(address, host_key="")) == server.host_key
        assert reached(address, server.root) == "openssh paramiko lacks algorithms of its server"
        with pytest.raises(UsageError, match="wants what paramiko lacks") as raised:
            reached(server.address(), server.root)
        assert 'ssh = "openssh"' in raised.value.hint


def test_the_client_accepts_the_pinned_key_alone(server: Sshd, tmp_path: Path, home: Path) -> None:
    (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {server.host_key}\n")
    for kind, says in (("ed25519", fingerprint(server.host_key)), ("ecdsa", "no key of that type")):
        other = make_key(tmp_path / kind, kind)
        with pytest.raises(UsageError, match=r"host key of 127.0.0.1 has changed") as raised:
            reached(replace(server.address(ssh="openssh"), host_key=other, use_config=True), server.root)
        assert says in raised.value.message and "toolchain board repin bench" in raised.value.hint


def test_a_shared_connection_of_the_users_is_not_taken(server: Sshd, tmp_path: Path, home: Path) -> None:
    """Its host key was compared with another list."""
    (home / ".ssh" / "config").write_text(f"Host *\n  ControlMaster auto\n  ControlPath {tmp_path}/shared\n")
    board = SshTransport(replace(server.address(ssh="openssh"), use_config=True), str(server.root))
    assert board.run(["true"]).returncode == 0
    assert not (tmp_path / "shared").exists()
    options = board.ssh_command()
    assert "ControlPath=none" in options
    board.close()


def test_the_client_ends_with_its_user_however_that_ends(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd") as server:
        board = SshTransport(server.address(ssh="openssh"), str(server.root))
        assert board.run(["true"]).returncode == 0
        assert programs(str(server.port)), "the client runs"
        board.close()
        until(lambda: not programs(str(server.port)), what="the client's end")
        with owner(board, "board.run(['sh', '-c', 'echo $$ 0 > pids; sleep 300'])") as running:
            pids(board)
            assert programs(str(server.port))
            running.kill()
        until(lambda: not programs(str(server.port)), what="the client's end")


CONFIGS = {
    "Include": "Include {home}/.ssh/more\n",
    "CanonicalizeHostname": "CanonicalizeHostname always\nCanonicalizeMaxDots 0\n{here}",
    "tokens": "Host rack\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {home}/.ssh/key-%n\n",
    "Match": 'Match originalhost rack exec "true"\n  HostName 127.0.0.1\n  Port {port}\n'
    "  IdentityFile {identity}\n",
}
HERE = "Host rack\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {identity}\n"


@pytest.mark.parametrize("kind", CONFIGS)
def test_an_ssh_config_that_paramiko_does_not_understand_is_read_by_the_client(
    server: Sshd, home: Path, kind: str
) -> None:
    values = {"home": home, "port": server.port, "identity": server.identity}
    here = HERE.format(**values)
    (home / ".ssh" / "more").write_text(here)
    (home / ".ssh" / "config").write_text(CONFIGS[kind].format(**values, here=here))
    (home / ".ssh" / "key-rack").write_bytes(server.identity.read_bytes())
    (home / ".ssh" / "key-rack").chmod(0o600)
    address = SshAddress("rack", None, None, server.host_key, name="rack")
    assert reached(address, server.root).startswith("openssh ssh_config has")
    assert ask_host_key(replace(address, host_key="")) == server.host_key


def test_an_ssh_config_that_both_understand_is_left_to_paramiko(server: Sshd, home: Path) -> None:
    config = HERE.format(port=server.port, identity=server.identity)
    (home / ".ssh" / "config").write_text(config + "Host *\n  ServerAliveInterval 5\n  ForwardAgent yes\n")
    assert reached(SshAddress("rack", None, None, server.host_key), server.root) == "paramiko"
    for jump in ("10.0.0.1", "me@[10.0.0.1]:2", "one,ssh://me@two:22", "[::1]:2022"):
        (home / ".ssh" / "config").write_text(config + f"  ProxyJump {jump}\n")
        address = SshAddress("rack", None, None, server.host_key)
        assert client_reason(address) == ""
        assert resolve(address).proxy[0] == "ssh"
    (home / ".ssh" / "config").write_text("Host rack\n  HostName fe80::1%%usb0\n  ProxyCommand nc %h %p\n")
    address = SshAddress("rack", None, None, server.host_key)
    assert resolve(address).host == "fe80::1%usb0"
    assert "hostname fe80::1%usb0" in client_reason(address)


def test_an_agent_that_ssh_config_names_is_asked(
    server: Sshd, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent(tmp_path, monkeypatch) as path:
        add_key(server.identity)
        monkeypatch.delenv("SSH_AUTH_SOCK")
        (home / ".ssh" / "config").write_text(
            f"Host rack\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityAgent {path}\n"
        )
        way = reached(SshAddress("rack", None, None, server.host_key), server.root)
        assert way == "openssh ssh_config has identityagent for it, which paramiko does not know"


@pytest.mark.usefixtures("home")
def test_a_key_that_the_agent_does_not_sign_with_does_not_end_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = make_key(tmp_path / "refused")
    with agent(tmp_path, monkeypatch), sshd(tmp_path / "sshd") as server:
        with (server.folder / "authorized_keys").open("a") as keys:
            keys.write(refused + "\n")
        add_key(tmp_path / "refused", "-c")  # which nobody confirms
        add_key(server.identity)
        address = replace(server.address(ssh="auto"), identity=None, use_config=True)
        assert "does not sign with" in reached(address, server.root)
        with pytest.raises(RefusedError, match="which does not sign"):
            reached(replace(address, ssh="paramiko"), server.root)


@pytest.mark.parametrize("ssh", ["auto", "openssh"])
def test_a_public_key_as_identity_means_the_agents(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ssh: str
) -> None:
    public = tmp_path / "card.pub"
    public.write_bytes(server.identity.with_name("id.pub").read_bytes())
    address = replace(server.address(ssh="paramiko"), identity=public)
    with pytest.raises(RefusedError, match=r"card.pub .a public key, whose private half is not in the agent"):
        reached(address, server.root)
    with agent(tmp_path, monkeypatch):
        add_key(server.identity)
        assert reached(replace(address, ssh=ssh), server.root).split()[0] in ("paramiko", "openssh")


@pytest.mark.parametrize("ssh", ["paramiko", "openssh"])
def test_jump_hosts_may_be_ipv6_addresses(tmp_path: Path, home: Path, ssh: str) -> None:
    with sshd(tmp_path / "sshd", "ListenAddress ::1") as server:
        (home / ".ssh" / "config").write_text(
            f"Host ::1\n  Port {server.port}\n  IdentityFile {server.identity}\n"
            "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
        )
        address = replace(server.address(ssh=ssh), jump=f"[::1]:{server.port}", use_config=True)
        assert reached(address, server.root).split()[0] == ssh
        far = replace(address, jump="fe80::1%nowhere")
        with pytest.raises(WayError, match="Could not resolve hostname fe80::1%nowhere"):
            reached(far, server.root)


def test_a_server_that_takes_no_keys_says_what_it_takes(tmp_path: Path) -> None:
    with sshd(tmp_path / "sshd", "PubkeyAuthentication no", "PasswordAuthentication yes") as server:
        with pytest.raises(RefusedError, match="with a key is not allowed there; it wants: password"):
            reached(server.address(ssh="auto"), server.root)
        with pytest.raises(RefusedError, match=r"Permission denied \(password\)"):
            reached(server.address(ssh="openssh"), server.root)


def test_a_server_that_wants_nothing_is_used(tmp_path: Path) -> None:
    there = account(tmp_path, open_to_all=True)
    options = (
        "PubkeyAuthentication no",
        "PasswordAuthentication yes",
        "PermitEmptyPasswords yes",
        "PermitRootLogin yes",
    )
    with sshd(tmp_path / "sshd", *options, before=there.before) as server:
        assert reached(server.address(ssh="auto"), server.root) == "paramiko"
        assert reached(server.address(ssh="openssh"), server.root).startswith("openssh")

"""Keys of OpenSSH's own program and of ours, in files and in a real agent."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.waiting import until
from toolchain.errors import UsageError
from toolchain.releases.envelope import PublicKey
from toolchain.releases.signers.keys import agent_keys, find_key, find_signer, need_signer
from toolchain.releases.signers.openssh import make_pair, read_key


class Answers:
    """Gives one passphrase, and counts how often it is asked for."""

    def __init__(self, text: str = "") -> None:
        self.text, self.asked = text, 0

    def passphrase(self, path: Path) -> str:
        del path
        self.asked += 1
        return self.text

    def pin(self, token: str) -> str:
        del token
        return self.text


def ssh_keygen(path: Path, *options: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-f", path, "-C", "someone", *options], check=True, timeout=60)
    return path


def output(*command: object) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def fingerprint(path: Path) -> str:
    return output("ssh-keygen", "-lf", path).split()[1]


# deriving a key from a passphrase takes a second each time
@pytest.mark.parametrize("secret", ["", pytest.param("geheim", marks=pytest.mark.slow)])
def test_files_of_both_programs(tmp_path: Path, secret: str) -> None:
    theirs = ssh_keygen(tmp_path / "theirs", "-t", "ed25519", "-N", secret)
    make_pair(tmp_path / "ours", secret)
    for path in (theirs, tmp_path / "ours"):
        answers = Answers(secret)
        assert path.stat().st_mode & 0o777 == 0o600
        assert find_key(f"{path}.pub").key == find_key(str(path)).key
        assert read_key(path).key.fingerprint == fingerprint(path)
        signer = need_signer(str(path), answers)
        assert signer.key.signed(b"message", signer.sign(b"message"))
        assert not signer.key.signed(b"massage", signer.sign(b"message"))
        assert answers.asked == (secret != "")
        # OpenSSH derives the same public half from our private file.
        said = output("ssh-keygen", "-y", "-P", secret, "-f", path)
        assert said.startswith(signer.key.openssh)


@pytest.mark.slow
def test_a_wrong_passphrase_and_an_existing_file(tmp_path: Path) -> None:
    key = make_pair(tmp_path / "key", "geheim")
    with pytest.raises(UsageError, match="passphrase is wrong"):
        need_signer(str(tmp_path / "key"), Answers("falsch"))
    for occupied in ("key", "key.pub"):
        with pytest.raises(UsageError, match="never overwritten"):
            make_pair(tmp_path / occupied.removesuffix(".pub"), "")
    assert read_key(tmp_path / "key").key == key


def test_keys_in_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ssh_keygen(tmp_path / "key", "-t", "ed25519", "-N", "")
    other = ssh_keygen(tmp_path / "other", "-t", "ecdsa", "-N", "")
    with subprocess.Popen(["ssh-agent", "-D", "-a", tmp_path / "agent"], stdout=subprocess.DEVNULL) as agent:
        try:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
            until((tmp_path / "agent").exists)
            assert agent_keys() == [] and find_signer(find_key(f"{path}.pub"), Answers()) is None
            subprocess.run(["ssh-add", "-q", path, other], check=True, timeout=60)
            path.unlink()
            for name in (f"agent:{fingerprint(Path(f'{path}.pub'))}", f"{path}.pub"):
                signer = need_signer(name, Answers())
                assert signer.key.signed(b"message", signer.sign(b"message"))
            with pytest.raises(UsageError, match="no Ed25519 key of this fingerprint"):
                find_key(f"agent:{fingerprint(other)}")
        finally:
            agent.terminate()


def test_a_public_key_without_its_private_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    key = make_pair(tmp_path / "key", "")
    assert isinstance(key, PublicKey)
    with pytest.raises(UsageError, match="not in an ssh-agent"):
        need_signer(str(tmp_path / "key.pub"), Answers())

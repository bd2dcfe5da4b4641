"""An agent that hangs, or answers what no agent answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.releases.made import ANNA
from toolchain.errors import ToolchainError
from toolchain.releases.envelope import Envelope
from toolchain.releases.signers import keys as agent
from toolchain.releases.signers.keys import AgentSigner, agent_keys
from toolchain.releases.signers.openssh import string


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """Listen as an agent does; answer once, then close."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(timeout=60)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(agent.SOCKET, str(tmp_path / "agent"))
    return tmp_path / "agent"


LIES = [
    (b"", "ended in the middle"),
    (b"\xff\xff\xff\xff", "4294967295 bytes"),
    (b"\0\0\0\x09\x0c\0\0\0\x01\0\0\0\x10", "cut short"),
]


@pytest.mark.parametrize(("answer", "why"), LIES)
def test_lists_that_are_none(path: Path, answer: bytes, why: str) -> None:
    with answering(path, answer), pytest.raises(ToolchainError, match=why):
        agent_keys()


def test_a_refusal_and_a_signature_by_another_key(path: Path) -> None:
    signer = AgentSigner(ANNA.key)
    with answering(path, string(b"\x05")), pytest.raises(ToolchainError, match="refused to sign"):
        signer.sign(b"message")
    path.unlink()
    other = string(b"\x0e" + string(string(b"ssh-ed25519") + string(bytes(64))))
    with answering(path, other), pytest.raises(ToolchainError, match="returned no signature"):
        Envelope("type", b"payload").signed_by(signer, "it")


def test_a_silent_agent_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_ANSWER_S", 0.05)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with pytest.raises(ToolchainError, match="does not answer"):
            agent_keys()

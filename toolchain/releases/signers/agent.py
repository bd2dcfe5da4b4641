"""Keys in the user's ssh-agent, by the agent's protocol (draft-ietf-sshm-ssh-agent).

paramiko's client waits forever for an agent that does not answer; this one has deadlines.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from toolchain.errors import ToolchainError, UsageError
from toolchain.releases.keys import PublicKey
from toolchain.releases.signers.wire import ED25519, public_key, string, take

SOCKET = "SSH_AUTH_SOCK"
_LIST, _LISTED, _SIGN, _SIGNED = 11, 12, 13, 14
_ANSWER_S = 10.0
_SIGN_S = 120.0  # a person may have to confirm
_MOST_BYTES = 256 * 1024  # OpenSSH's own limit of a message


@dataclass(frozen=True)
class AgentSigner:
    """A key whose private half is in the agent."""

    key: PublicKey

    def sign(self, message: bytes) -> bytes:
        """Let the agent sign.

        Raises
        ------
        UsageError
            The agent refuses, such as when its user does.
        ToolchainError
            The agent does not answer.
        """
        blob = string(ED25519.encode()) + string(self.key.raw)
        request = bytes([_SIGN]) + string(blob) + string(message) + bytes(4)
        answer = _ask(request, _SIGN_S)
        if answer[:1] != bytes([_SIGNED]):
            raise UsageError(
                f"the agent refused to sign with key {self.key.fingerprint}", "`ssh-add -l` lists its keys"
            )
        try:
            kind, rest = take(take(answer[1:])[0])
            signature = take(rest)[0]
        except ValueError as error:
            raise _odd(str(error)) from error
        if kind != ED25519.encode():
            raise _odd(f"its signature is of kind {kind[:40]!r}")
        return signature


def agent_keys() -> list[PublicKey]:
    """Return the Ed25519 keys in the agent; none if there is no agent.

    Raises
    ------
    ToolchainError
        The agent does not answer, or not as agents do.
    """
    if not os.environ.get(SOCKET):
        return []
    answer = _ask(bytes([_LIST]), _ANSWER_S)
    if answer[:1] != bytes([_LISTED]):
        return []
    keys, rest = [], answer[5:]
    try:
        while rest:
            blob, rest = take(rest)
            _, rest = take(rest)  # the comment
            try:
                keys.append(public_key(blob))
            except ValueError:
                continue  # of another kind
    except ValueError as error:
        raise _odd(str(error)) from error
    return keys


def _ask(request: bytes, seconds: float) -> bytes:
    with _connected(seconds) as connection:
        connection.sendall(string(request))
        size = int.from_bytes(_receive(connection, 4), "big")
        if size > _MOST_BYTES:
            raise _odd(f"its answer has {size} bytes")
        return _receive(connection, size)


@contextmanager
def _connected(seconds: float) -> Iterator[socket.socket]:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(os.environ.get(SOCKET, ""))
            yield connection
    except OSError as error:  # a timeout too
        raise ToolchainError(
            f"the ssh-agent at {SOCKET}={os.environ.get(SOCKET, '')} does not answer: {error}",
            "start one: eval $(ssh-agent), then ssh-add KEY; or give the key's file",
        ) from error


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise _odd("it ended in the middle of an answer")
        data += chunk
    return data


def _odd(problem: str) -> ToolchainError:
    return ToolchainError(
        f"the ssh-agent does not answer as agents do: {problem}", "give the key's file instead"
    )

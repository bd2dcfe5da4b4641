"""Finds keys by what a user types for `--key`: a file, `agent:FINGERPRINT` or a `pkcs11:` URI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toolchain.errors import UsageError
from toolchain.releases.envelope import Signer
from toolchain.releases.keys import PublicKey
from toolchain.releases.signers.agent import AgentSigner, agent_keys
from toolchain.releases.signers.openssh import KeyFile, open_signer, read_key

AGENT = "agent:"
PKCS11 = "pkcs11:"


class Secrets(Protocol):
    """Asks the user for secrets."""

    def passphrase(self, path: Path) -> str:
        """Return the passphrase of a key file."""

    def pin(self, token: str) -> str:
        """Return the PIN of a PKCS#11 token."""


@dataclass(frozen=True)
class NamedKey:
    """A key as a user named it.

    Attributes
    ----------
    file
        The file that it was read from; None for an agent's or a module's.
    """

    name: str
    key: PublicKey
    file: KeyFile | None = None


def find_key(name: str) -> NamedKey:
    """Return the public half of a key; asks for no passphrase, and for a PIN never.

    Raises
    ------
    UsageError
        There is no such key, or it is of a kind that does not sign releases.
    """
    if name.startswith(PKCS11):
        from toolchain.releases.signers.hsm import module_key

        return NamedKey(name, module_key(name))
    if name.startswith(AGENT):
        return NamedKey(name, _agent_key(name.removeprefix(AGENT)))
    file = read_key(Path(name))
    return NamedKey(name, file.key, file)


def find_signer(found: NamedKey, secrets: Secrets) -> Signer | None:
    """Return what signs with a key; None for a public key whose private half is not in the agent.

    Raises
    ------
    UsageError
        The passphrase or PIN is wrong.
    """
    if found.name.startswith(PKCS11):
        from toolchain.releases.signers.hsm import module_signer

        return module_signer(found.name, found.key, secrets.pin)
    if found.file is not None and found.file.private:
        return open_signer(found.file, secrets.passphrase)
    return AgentSigner(found.key) if found.file is None or found.key in agent_keys() else None


def need_signer(name: str, secrets: Secrets) -> Signer:
    """Return what signs with the key of this name.

    Raises
    ------
    UsageError
        There is no such key, or its private half is not here.
    """
    signer = find_signer(find_key(name), secrets)
    if signer is None:
        raise UsageError(
            f"--key {name} is a public key, and its private half is not in an ssh-agent",
            "give the private key's file, or add it to the agent: ssh-add KEY",
        )
    return signer


def _agent_key(fingerprint: str) -> PublicKey:
    keys = {key.fingerprint: key for key in agent_keys()}
    if fingerprint not in keys:
        raise UsageError(
            f"--key {AGENT}{fingerprint}: the agent has no Ed25519 key of this fingerprint",
            f"it has: {', '.join(keys)}" if keys else "add it: ssh-add KEY; then `ssh-add -l` lists it",
        )
    return keys[fingerprint]

"""Trusts that wait for signatures: `TRUST.next`, beside the trust file that they will go into."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from toolchain.errors import CheckError, UsageError
from toolchain.files.atomic import sync_folder, write_bytes
from toolchain.files.turns import TURN_S, folder_turn
from toolchain.releases.envelope import MOST_BYTES, Envelope, PublicKey, Signer, parse_envelope
from toolchain.releases.reading import read_limited
from toolchain.releases.trust import TRUST_TYPE, Trust, TrustChain, check_chain, read_trust, trust_of


@dataclass(frozen=True)
class Missing:
    """Signatures that a trust still needs from the root keys of one version."""

    version: int
    have: int
    need: int
    may_sign: tuple[PublicKey, ...]


@dataclass(frozen=True)
class PendingTrust:
    """The next version of a trust, signed or half-signed.

    Attributes
    ----------
    path
        The trust file, which may not exist yet.
    chain
        Its content; None for the first version.
    stored
        Whether it was read from the file in which it waits.
    """

    path: Path
    chain: TrustChain | None
    trust: Trust
    envelope: Envelope
    stored: bool = False

    @property
    def file(self) -> Path:
        """The file in which it waits for signatures."""
        return pending_path(self.path)

    @property
    def missing(self) -> list[Missing]:
        """The signatures that it needs, from its own root keys and those of its predecessor."""
        found = []
        for trust in (self.chain.newest, self.trust) if self.chain else (self.trust,):
            keys = trust.keys_of(trust.root)
            signers = self.envelope.signers(keys)
            if len(signers) < trust.root.threshold:
                others = tuple(key for key in keys if key not in signers)
                found.append(Missing(trust.version, len(signers), trust.root.threshold, others))
        return found

    def signed_by(self, signers: Iterable[Signer]) -> PendingTrust:
        """Return it with more signatures.

        Raises
        ------
        UsageError
            A key signed it already, or is a root key of neither version.
        """
        envelope = self.envelope
        for signer in signers:
            if not any(signer.key in each.may_sign for each in self.missing):
                self._check_root_key(signer.key)
            envelope = envelope.signed_by(signer, f"trust version {self.trust.version}")
        return replace(self, envelope=envelope)

    def _check_root_key(self, key: PublicKey) -> None:
        trusts = (self.chain.newest, self.trust) if self.chain else (self.trust,)
        if not any(key in trust.keys_of(trust.root) for trust in trusts):
            raise UsageError(
                f"key {key.fingerprint} is not a root key of trust {self.path}",
                "`toolchain release trust show` lists the keys; root keys alone sign a trust",
            )

    def settle(self) -> PendingTrust:
        """Write the trust file if every signature is there, else the file in which it waits.

        Returns
        -------
        PendingTrust
            What was written, with the signatures that others added meanwhile.

        Raises
        ------
        UsageError
            Another process changed the trust meanwhile, or dropped or began a change.
        ToolchainError
            The file system refuses.
        """
        with folder_turn(self.path.parent, TURN_S, f"writing {self.path}"):
            joined = self._joined()
            joined._write()
        return joined

    def _joined(self) -> PendingTrust:
        chain, there = read_trust(self.path) if self.path.exists() else None, read_pending(self.path)
        if there is not None and there.envelope.payload == self.envelope.payload:
            what = f"trust version {self.trust.version}"
            return replace(there, envelope=there.envelope.joined(self.envelope, what))
        if there is None and chain is not None and chain.envelopes[-1].payload == self.envelope.payload:
            return replace(self, envelope=chain.envelopes[-1])  # others signed as much as it needs
        if there is None and chain == self.chain and not self.stored:
            return self
        raise UsageError(
            f"trust {self.path} was changed by another process while this one signed",
            "nothing was written; look at it, and run the command again: `toolchain release trust show "
            f"{self.path}`",
        )

    def _write(self) -> None:
        if self.missing:
            write_bytes(self.file, self.envelope.to_bytes() + b"\n")
            return
        envelopes = (*(self.chain.envelopes if self.chain else ()), self.envelope)
        newest = check_chain(envelopes, f"trust {self.path}")[-1]
        TrustChain(self.path, envelopes, newest).write()
        if self.file.exists():
            self.file.unlink()
            sync_folder(self.file.parent)


def pending_path(trust: Path) -> Path:
    """Return the path of the trust that waits for signatures beside a trust file."""
    return trust.with_name(f"{trust.name}.next")


def read_pending(path: Path) -> PendingTrust | None:
    """Read the trust that waits beside a trust file; None if none does.

    Raises
    ------
    UsageError
        A file cannot be read.
    CheckError
        It does not follow the trust file's newest version, or is no trust.
    """
    file = pending_path(path)
    chain = read_trust(path) if path.exists() else None
    if not file.exists():
        return None
    what = f"trust {file}"
    envelope = parse_envelope(read_limited(file, MOST_BYTES, "the trust").strip(), TRUST_TYPE, what)
    if chain is not None and envelope.payload == chain.envelopes[-1].payload:
        return None  # it is in the trust file; a crash left it behind
    trust = trust_of(envelope, what)
    expected = chain.newest.version + 1 if chain else 1
    if trust.version != expected:
        raise CheckError(
            f"{what} has version {trust.version}, but version {expected} is next for {path}",
            f"get the newest {path}, or remove {file} and make the change again",
        )
    return PendingTrust(path, chain, trust, envelope, stored=True)


def begin(path: Path, make: Trust, chain: TrustChain | None) -> PendingTrust:
    """Return a new version that nobody has signed yet.

    Raises
    ------
    UsageError
        Another one waits for signatures, or `path` exists though this is the first version.
    """
    file = pending_path(path)
    if read_pending(path) is not None:
        raise UsageError(
            f"{file} waits for signatures already",
            f"`toolchain release trust sign {path} --key KEY` signs it; remove it to drop that change",
        )
    if chain is None and path.exists():
        raise UsageError(
            f"{path} exists; a trust is never overwritten",
            "`toolchain release trust` changes it; name another file: -o FILE",
        )
    return PendingTrust(path, chain, make, make.enveloped())

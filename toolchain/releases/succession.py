"""The succession of trusts: the first one, changes that make the next, and signatures that it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from toolchain.answers import problem
from toolchain.errors import CheckError, UsageError
from toolchain.files.atomic import sync_folder, write_bytes
from toolchain.files.plain import read_limited
from toolchain.files.turns import TURN_S, folder_turn
from toolchain.quantities import counted
from toolchain.releases.envelope import MOST_BYTES, Envelope, PublicKey, Signer, parse_envelope
from toolchain.releases.trust import (
    TRUST_TYPE,
    Role,
    Trust,
    TrustChain,
    TrustedKey,
    check_chain,
    day,
    read_trust,
    trust_of,
)

# Trusts that wait for signatures: `TRUST.next`, beside the trust file that they will go into.


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
        missing = []
        for trust in (self.chain.newest, self.trust) if self.chain else (self.trust,):
            keys = trust.keys_of(trust.root)
            signers = self.envelope.signers(keys)
            if len(signers) < trust.root.threshold:
                others = tuple(key for key in keys if key not in signers)
                missing.append(Missing(trust.version, len(signers), trust.root.threshold, others))
        return missing

    def signed_by(self, signers: Iterable[Signer]) -> PendingTrust:
        """Return it with more signatures.

        Raises
        ------
        UsageError
            A key signed it already, or is a root key of neither version.
        """
        envelope = self.envelope
        for signer in signers:
            if not any(signer.key in missing.may_sign for missing in self.missing):
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
        chain, pending = read_trust(self.path) if self.path.exists() else None, read_pending(self.path)
        if pending is not None and pending.envelope.payload == self.envelope.payload:
            what = f"trust version {self.trust.version}"
            return replace(pending, envelope=pending.envelope.joined(self.envelope, what))
        if pending is None and chain is not None and chain.envelopes[-1].payload == self.envelope.payload:
            return replace(self, envelope=chain.envelopes[-1])  # others signed as much as it needs
        if pending is None and chain == self.chain and not self.stored:
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


LIFETIME_S = 2 * 365 * 86400
"""Default lifetime of a trust: after it, boards accept its successor, but no release."""

ROLES = ("root", "release")
_SHORTEST = 8  # hexadecimal digits of a key id that a user types


def first_trust(
    root: Sequence[PublicKey],
    release: Sequence[PublicKey],
    root_threshold: int,
    threshold: int,
    expires: int,
) -> Trust:
    """Return version 1 of a trust.

    Parameters
    ----------
    root, release
        Keys that sign the next trust, and keys that sign releases.
    expires
        Seconds since 1970.

    Raises
    ------
    UsageError
        A threshold is larger than the number of keys, or a key occurs twice.
    """
    return _next_trust(1, expires, {"root": (root, root_threshold), "release": (release, threshold)})


def changed_trust(
    old: Trust,
    change: Callable[[list[PublicKey]], list[PublicKey]],
    roles: Iterable[str] = ROLES,
    *,
    root_threshold: int | None = None,
    threshold: int | None = None,
    expires: int | None = None,
) -> Trust:
    """Return the next version of a trust, with changed keys.

    Parameters
    ----------
    change
        Returns the keys of a role from its old keys.
    roles
        The roles whose keys change.
    root_threshold, threshold, expires
        New values; None: the old ones.

    Raises
    ------
    UsageError
        The result would be no trust, such as with fewer keys than its threshold.
    """
    roles_keys = {}
    for name, role, number in (("root", old.root, root_threshold), ("release", old.release, threshold)):
        keys = old.keys_of(role)
        roles_keys[name] = (
            change(keys) if name in roles else keys,
            role.threshold if number is None else number,
        )
    return _next_trust(old.version + 1, old.expires if expires is None else expires, roles_keys)


def check_expiry(expires: int) -> None:
    """Refuse a trust that has ended already.

    Raises
    ------
    UsageError
        `expires`, in seconds since 1970, is past.
    """
    if expires <= time.time():
        raise UsageError(
            f"the trust would end on {day(expires)}, which is past", "give a later day: --expires DATE"
        )


def known_key(trust: Trust, name: str) -> PublicKey:
    """Return the key of a trust with this fingerprint, or whose id begins with these digits.

    Raises
    ------
    UsageError
        There is no such key, or there are several.
    """
    keys = [each.key for each in trust.keys]
    matching = [
        key
        for key in keys
        if name == key.fingerprint or (len(name) >= _SHORTEST and key.keyid.startswith(name.lower()))
    ]
    if len(matching) != 1:
        listed = ", ".join(f"{key.keyid[:16]} ({key.fingerprint})" for key in keys)
        raise UsageError(
            f"{name}: {'several keys' if matching else 'no key'} of the trust have this id or fingerprint"
            if matching
            else f"{name}: the trust has no key of this id or fingerprint, and there is no such file",
            f"its keys are: {listed}",
        )
    return matching[0]


def _next_trust(version: int, expires: int, roles: Mapping[str, tuple[Sequence[PublicKey], int]]) -> Trust:
    for name, (keys, threshold) in roles.items():
        option = "--root-threshold" if name == "root" else "--threshold"
        if len(set(keys)) != len(keys):
            raise UsageError(f"one key is named twice for {name}", "name each key once")
        if not 1 <= threshold <= len(keys):
            raise UsageError(
                f"the threshold of {name} is {threshold}, but it would have {counted(len(keys), 'key')}",
                f"give {option} N, or more keys",
            )
    every = dict.fromkeys(key for keys, _ in roles.values() for key in keys)
    try:
        return Trust(
            version=version,
            expires=expires,
            keys=tuple(TrustedKey(keyid=key.keyid, public=key.raw.hex()) for key in every),
            **{
                name: Role(keyids=tuple(key.keyid for key in keys), threshold=threshold)
                for name, (keys, threshold) in roles.items()
            },
        )
    except ValidationError as error:
        raise UsageError(f"this would be no trust: {problem(error)}", "use fewer keys") from error

"""A trust: whose signatures count, and how many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, StrictInt, ValidationError, model_validator

from toolchain.answers import Several, problem
from toolchain.errors import CheckError
from toolchain.quantities import counted
from toolchain.releases.checking import check_signatures
from toolchain.releases.envelope import Envelope
from toolchain.releases.keys import PublicKey
from toolchain.releases.schema import Hex, Moment, Strict
from toolchain.releases.strict_json import LARGEST, dump, parse

TRUST_TYPE = "application/vnd.edge-toolchain.trust+json"
MOST_KEYS = 32


class TrustedKey(Strict):
    """A public key with its id."""

    keyid: Hex
    public: Hex

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.key.keyid != self.keyid:
            raise ValueError(f"the id of {self.public} is not {self.keyid}")
        return self

    @property
    def key(self) -> PublicKey:
        """The public key."""
        return PublicKey(bytes.fromhex(self.public))


class Role(Strict):
    """The keys that may sign for a role, and how many of them must."""

    keyids: Several[Hex] = Field(min_length=1, max_length=MOST_KEYS)
    threshold: Annotated[StrictInt, Field(ge=1)]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if len(set(self.keyids)) != len(self.keyids):
            raise ValueError("a key id occurs twice")
        if self.threshold > len(self.keyids):
            raise ValueError(f"threshold is {self.threshold}, but it has {counted(len(self.keyids), 'key')}")
        return self


class Trust(Strict):
    """Whose signatures count: `root` signs the next trust, `release` signs releases."""

    format: Annotated[StrictInt, Field(ge=1, le=1)] = 1
    version: Annotated[StrictInt, Field(ge=1, le=LARGEST)]
    expires: Moment
    keys: Several[TrustedKey] = Field(min_length=1, max_length=MOST_KEYS)
    root: Role
    release: Role

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        known = [key.keyid for key in self.keys]
        if len(set(known)) != len(known):
            raise ValueError("a key occurs twice")
        for name, role in (("root", self.root), ("release", self.release)):
            if strangers := set(role.keyids) - set(known):
                raise ValueError(f"{name}: {min(strangers)} is not among the keys")
        return self

    def keys_of(self, role: Role) -> list[PublicKey]:
        """Return the keys of a role."""
        return [each.key for each in self.keys if each.keyid in role.keyids]

    def check_root(self, envelope: Envelope, what: str) -> None:
        """Check that the root threshold of this trust signed an envelope.

        Raises
        ------
        CheckError
            Too few root keys signed it.
        """
        what = f"{what}, for the root keys of version {self.version},"
        check_signatures(envelope, self.keys_of(self.root), self.root.threshold, what)

    def enveloped(self) -> Envelope:
        """Return the trust in an envelope without signatures."""
        return Envelope(TRUST_TYPE, dump(self.model_dump(mode="json")))


def trust_of(envelope: Envelope, what: str) -> Trust:
    """Read the trust in an envelope whose signatures are not checked yet.

    A trust names the keys that must have signed it, so it is parsed before.

    Raises
    ------
    CheckError
        It is no trust, or of another format.
    """
    try:
        values = parse(envelope.payload)
        if isinstance(values, dict) and type(values.get("format")) is int and values["format"] != 1:
            raise CheckError(
                f"{what} has format {values['format']}, this toolchain reads format 1",
                "upgrade with: pip install --upgrade edge-toolchain",
            )
        return Trust.model_validate(values)
    except ValidationError as error:
        raise CheckError(f"{what} is not a trust: {problem(error)}", "get the file again") from error
    except ValueError as error:
        raise CheckError(f"{what} is not a trust: {error}", "get the file again") from error


def check_chain(envelopes: Sequence[Envelope], what: str) -> list[Trust]:
    """Check trusts, oldest first, as a board would that takes them one after the other.

    Raises
    ------
    CheckError
        One is no trust, skips a version, or lacks signatures of its own root keys or its predecessor's.
    """
    trusts: list[Trust] = []
    for number, envelope in enumerate(envelopes, 1):
        name = f"{what}, line {number}" if len(envelopes) > 1 else what
        trust = trust_of(envelope, name)
        if trusts:
            if trust.version != trusts[-1].version + 1:
                raise CheckError(
                    f"{name} has version {trust.version} after {trusts[-1].version}",
                    "each version must follow the one before; get the file again",
                )
            trusts[-1].check_root(envelope, name)
        trust.check_root(envelope, name)
        trusts.append(trust)
    return trusts

"""Decides whether enough keys signed an envelope, by two libraries that do not share code."""

from __future__ import annotations

from collections.abc import Collection

from toolchain.errors import CheckError
from toolchain.quantities import counted
from toolchain.releases.envelope import Envelope
from toolchain.releases.keys import PublicKey


def check_signatures(envelope: Envelope, keys: Collection[PublicKey], threshold: int, what: str) -> None:
    """Check that at least `threshold` distinct keys signed the payload.

    libsodium, by which boards check, decides for each key; then securesystemslib, which uses OpenSSL, must
    come to the same end. It counts key ids, so it gets one signature for each key, under the id that we
    compute.

    Raises
    ------
    CheckError
        Too few of the keys signed it.
    """
    signers = envelope.signers(set(keys))
    if len(signers) < threshold:
        known = ", ".join(sorted(key.fingerprint for key in signers))
        raise CheckError(
            f"{what} is signed by {len(signers)} of the {counted(threshold, 'trusted key')} that it needs"
            + (f" ({known})" if known else ""),
            "let another holder of a trusted key sign it, or give the trust that it was signed for",
        )
    if len(_accepted(envelope, signers, threshold)) < threshold:
        raise CheckError(
            f"{what}: libsodium accepts its signatures, OpenSSL does not", "do not use it, and report this"
        )


def _accepted(envelope: Envelope, signers: Collection[PublicKey], threshold: int) -> Collection[str]:
    """Return the ids of the keys whose signatures securesystemslib accepts."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from securesystemslib.dsse import Envelope as Dsse
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import Key, Signature, SSlibKey  # type: ignore[attr-defined]

    message, found = envelope.message, {}
    for key in signers:
        value = next(each.value for each in envelope.signatures if key.signed(message, each.value))
        found[key.keyid] = Signature(key.keyid, value.hex())
    keys: list[Key] = [
        SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(key.raw), keyid=key.keyid) for key in signers
    ]
    try:
        return set(Dsse(envelope.payload, envelope.payload_type, found).verify(keys, threshold))
    except VerificationError:
        return ()

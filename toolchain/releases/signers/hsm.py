"""Keys in PKCS#11 modules, such as smart cards, named by URIs (RFC 7512); needs the extra `hsm`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.releases.envelope import KEY_BYTES, PublicKey

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = "pkcs11:token=NAME;object=LABEL?module-path=/usr/lib/…/libNAME.so"


class KeyAddress(NamedTuple):
    """A key in a token, and the module that reaches it."""

    token: str
    label: str
    module: Path


@dataclass(frozen=True)
class ModuleSigner:
    """A key whose private half never leaves its token."""

    address: KeyAddress
    key: PublicKey
    pin: str

    def sign(self, message: bytes) -> bytes:
        """Let the token sign; errors as of `module_key`."""
        import pkcs11

        with _session(self.address, self.pin) as session:
            private = session.get_key(object_class=pkcs11.ObjectClass.PRIVATE_KEY, label=self.address.label)
            return bytes(private.sign(message, mechanism=pkcs11.Mechanism.EDDSA))


def parse_uri(uri: str) -> KeyAddress:
    """Read a URI with a token, an object and a module's path.

    Raises
    ------
    UsageError
        An attribute is missing, unknown, or a secret, which no command line must have.
    """
    path, _, query = uri.removeprefix("pkcs11:").partition("?")
    attributes = {}
    for attribute in (*path.split(";"), *filter(None, query.split("&"))):
        name, _, value = attribute.partition("=")
        if name not in ("token", "object", "module-path") or name in attributes or not value:
            raise UsageError(f"--key pkcs11:…: the attribute {name!r} cannot be used", f"write {EXAMPLE}")
        attributes[name] = unquote(value)
    if len(attributes) != 3 or not attributes["module-path"].startswith("/"):
        raise UsageError(
            "--key pkcs11:…: it needs token, object and an absolute module-path", f"write {EXAMPLE}"
        )
    return KeyAddress(attributes["token"], attributes["object"], Path(attributes["module-path"]))


def module_key(uri: str) -> PublicKey:
    """Return the public half of a key in a token.

    Raises
    ------
    UsageError
        The URI, the token, the key or the PIN is wrong, or the key is not Ed25519.
    MissingError
        python-pkcs11 is not installed.
    ToolchainError
        The module fails.
    """
    address = parse_uri(uri)
    pkcs11 = _library()
    with _session(address, None) as session:
        public = session.get_key(object_class=pkcs11.ObjectClass.PUBLIC_KEY, label=address.label)
        point = bytes(public[pkcs11.Attribute.EC_POINT])
    # DER's octet string (04 20) around the key, which some modules leave out.
    raw = point[2:] if len(point) == KEY_BYTES + 2 else point
    try:
        return PublicKey(raw)
    except ValueError as error:
        raise UsageError(
            f"--key {uri}: it is not an Ed25519 key: {error}", "releases are signed by Ed25519 keys"
        ) from error


def module_signer(uri: str, key: PublicKey, pin: Callable[[str], str]) -> ModuleSigner:
    """Return what signs with a key in a token; `pin` asks for the PIN of a token of this name."""
    address = parse_uri(uri)
    return ModuleSigner(address, key, pin(address.token))


def _library() -> Any:
    try:
        import pkcs11
    except ImportError as error:
        raise MissingError(
            "keys of PKCS#11 modules need the package python-pkcs11",
            "pip install 'edge-toolchain[hsm]'",
        ) from error
    return pkcs11


@contextmanager
def _session(address: KeyAddress, pin: str | None) -> Iterator[Any]:
    pkcs11 = _library()
    where = f"token {address.token!r} of {address.module}"
    try:
        token = pkcs11.lib(str(address.module)).get_token(token_label=address.token)
        with token.open(user_pin=pin) as session:
            yield session
    except pkcs11.exceptions.NoSuchToken as error:
        raise UsageError(f"there is no {where}", "`pkcs11-tool --list-slots` lists tokens") from error
    except pkcs11.exceptions.NoSuchKey as error:
        raise UsageError(
            f"{where} has no key {address.label!r}", "`pkcs11-tool --list-objects` lists keys"
        ) from error
    except (pkcs11.exceptions.PinIncorrect, pkcs11.exceptions.PinLenRange) as error:
        raise UsageError(
            f"the PIN of {where} is wrong", "try again; a token locks itself after some wrong PINs"
        ) from error
    except (pkcs11.exceptions.PKCS11Error, RuntimeError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise ToolchainError(f"{where} does not work: {reason}", "look at it with pkcs11-tool") from error

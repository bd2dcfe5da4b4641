"""Logs in on a board with the user's keys, in one attempt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import paramiko

from toolchain.boards.ssh.route import Route
from toolchain.boards.transport import LostError
from toolchain.errors import UsageError

AUTH_S = 30.0
_DOES_NOT_SIGN = "key cannot be used for signing"  # paramiko, when the agent refuses to
_LOCKED = "protected by a passphrase"
_WITHOUT_PERSON = ("gssapi-with-mic", "hostbased")
SILENT = "is it very busy? log in by hand to see"


class RefusedError(UsageError):
    """The board rejects the login. It is never retried: repeated attempts could lock the user out.

    Attributes
    ----------
    lacks
        What the login would need that paramiko lacks and the OpenSSH client may have; empty: nothing known.
    """

    def __init__(self, message: str, hint: str = "", lacks: str = "") -> None:
        super().__init__(message, hint)
        self.lacks = lacks


def log_in(transport: paramiko.Transport, route: Route, label: str) -> None:
    """Authenticate with the identity files and the agent's keys.

    Raises
    ------
    RefusedError
        The server accepts no key; the message lists the keys that were tried.
    LostError
        The server did not answer in time.
    """
    tried: list[str] = []
    skipped: list[str] = []
    lacks = ""
    begun = time.monotonic()
    for name, key in _keys(route, skipped):
        tried.append(name)
        try:
            also = transport.auth_publickey(route.user, key)
        except paramiko.BadAuthenticationType as error:
            if _needs_nothing(transport, route.user):
                return
            raise _no_keys(route, label, [method for method in error.allowed_types if method]) from error
        except paramiko.AuthenticationException as error:
            if time.monotonic() - begun >= AUTH_S:
                raise LostError(f"{label}: no answer to the login within {AUTH_S:g} s", SILENT) from error
            if not transport.is_active():
                break
        except (paramiko.SSHException, EOFError, OSError) as error:
            if str(error) == _DOES_NOT_SIGN:
                tried[-1] += " (which does not sign)"
                lacks = "another key after one that the agent does not sign with"
            break  # else the server closed the connection: too many keys were tried
        else:
            if transport.is_authenticated():
                return
            raise RefusedError(f"{label}: {name} alone is not enough there; it also wants: {', '.join(also)}")
    if not tried and _needs_nothing(transport, route.user):
        return
    unread = [key for key in skipped if _LOCKED not in key]
    if unread and not lacks:
        lacks = f"a key that it cannot read: {unread[0]}"
    raise _refused(route, label, tried, skipped, lacks)


def _needs_nothing(transport: paramiko.Transport, user: str) -> bool:
    """Return whether the server lets the user in without a key; some know them from their network."""
    try:
        transport.auth_none(user)
    except (paramiko.SSHException, EOFError, OSError):
        return False
    return bool(transport.is_authenticated())


def _no_keys(route: Route, label: str, allowed: list[str]) -> RefusedError:
    wants = f"it wants: {', '.join(allowed)}" if allowed else "it names no other way, either"
    others = [method for method in allowed if method in _WITHOUT_PERSON]
    lacks = f"logging in by {' or '.join(others)}" if others else ""
    return RefusedError(
        f"{label}: logging in as {route.user} with a key is not allowed there; {wants}",
        "set `PubkeyAuthentication yes` in its sshd_config",
        lacks,
    )


def log_in_with_password(transport: paramiko.Transport, user: str, password: str, label: str) -> None:
    """Authenticate with a password, once.

    Raises
    ------
    RefusedError
        The password is wrong, or passwords are not allowed.
    """
    try:
        transport.auth_password(user, password)
    except paramiko.BadAuthenticationType as error:
        raise RefusedError(
            f"{label}: passwords are not allowed there; it wants: {', '.join(error.allowed_types)}",
            "put your public key into ~/.ssh/authorized_keys there in another way",
        ) from error
    except paramiko.AuthenticationException as error:
        raise RefusedError(
            f"{label}: the password for {user} was refused", "run the command again"
        ) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise LostError(f"{label}: the connection ended during the login: {error}") from error


def _keys(route: Route, skipped: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    """Yield the keys in the order of ssh(1): those of the agent, then the files.

    If only certain files may be used, the agent's keys are limited to those with a public key beside one.
    """
    named = {half for file in route.identities if (half := _public_half(file))}
    agents = set()
    with closing(paramiko.Agent()) as agent:
        for key in agent.get_keys():
            if route.use_agent or key.get_base64() in named:
                agents.add(key.get_base64())
                yield f"the agent's {key.comment or key.get_name()}", key
    for file in route.identities:
        if not file.is_file() or _public_half(file) in agents:
            continue
        if file.name.endswith(".pub") and _public_half(file):
            skipped.append(f"{file} (a public key, whose private half is not in the agent: `ssh-add` it)")
            continue
        try:
            yield str(file), paramiko.PKey.from_path(file)
        except (paramiko.SSHException, ValueError, TypeError, OSError) as error:
            # The class of this error depends on the format of the key file.
            locked = isinstance(error, paramiko.PasswordRequiredException) or "password" in str(error)
            why = f"{_LOCKED}: `ssh-add {file}` first" if locked else str(error)
            skipped.append(f"{file} ({why})")


def _public_half(file: Path) -> str | None:
    """Return the public key of a private one, from `id.pub`; of a public file its own."""
    public = file if file.suffix == ".pub" else file.with_name(file.name + ".pub")
    try:
        return public.read_text().split()[1]
    except (OSError, IndexError, UnicodeDecodeError):
        return None


def _refused(route: Route, label: str, tried: list[str], skipped: list[str], lacks: str) -> RefusedError:
    keys = "none of your keys" if tried else "you have no key that could be tried"
    details = [f"tried: {', '.join(tried)}"] if tried else []
    details += [f"left out: {', '.join(skipped)}"] if skipped else []
    words = f"{keys} is accepted for {route.user}" if tried else f"{keys} for {route.user}"
    return RefusedError(
        f"{label}: {words}@{route.host}" + (f" ({'; '.join(details)})" if details else ""),
        "`toolchain board add … --install-key` puts your key there, or `ssh-copy-id`",
        lacks,
    )

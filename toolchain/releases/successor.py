"""The first trust, and changes that make its successor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from pydantic import ValidationError

from toolchain.answers import problem
from toolchain.errors import UsageError
from toolchain.quantities import counted
from toolchain.releases.envelope import PublicKey
from toolchain.releases.moments import day
from toolchain.releases.trust import Role, Trust, TrustedKey

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
    return _made(1, expires, {"root": (root, root_threshold), "release": (release, threshold)})


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
    made = {}
    for name, role, number in (("root", old.root, root_threshold), ("release", old.release, threshold)):
        keys = old.keys_of(role)
        made[name] = (change(keys) if name in roles else keys, role.threshold if number is None else number)
    return _made(old.version + 1, old.expires if expires is None else expires, made)


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
    found = [
        key
        for key in keys
        if name == key.fingerprint or (len(name) >= _SHORTEST and key.keyid.startswith(name.lower()))
    ]
    if len(found) != 1:
        listed = ", ".join(f"{key.keyid[:16]} ({key.fingerprint})" for key in keys)
        raise UsageError(
            f"{name}: {'several keys' if found else 'no key'} of the trust have this id or fingerprint"
            if found
            else f"{name}: the trust has no key of this id or fingerprint, and there is no such file",
            f"its keys are: {listed}",
        )
    return found[0]


def _made(version: int, expires: int, roles: Mapping[str, tuple[Sequence[PublicKey], int]]) -> Trust:
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

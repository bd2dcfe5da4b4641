"""Finds a mirror for Debian's packages: the setting's, else one of this machine's apt, else Debian's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from toolchain.configuration.settings import configuration
from toolchain.errors import UsageError

APT = Path("/etc/apt")
DEBIAN = "http://deb.debian.org/debian"
_BY_AGE = ("oldoldstable", "oldstable", "stable", "testing", "unstable")
_BY_NAME = ("bullseye", "bookworm", "trixie", "forky", "duke", "sid")


def debian_mirror(suite: str = "bookworm", apt: Path = APT) -> str:
    """Return the address of a Debian archive that has `suite`; apt checks the signatures of what it has.

    An archive has all suites that Debian cares for, so on a system of another suite its own mirror is taken.
    Of apt's addresses those count that end in `/debian`, as mirrors' do, or have updates of a suite, too;
    the setting's is taken as it is.

    Parameters
    ----------
    apt
        The folder of `sources.list`.

    Raises
    ------
    UsageError
        The setting's address has a password, which the engine would store.
    """
    found = configuration()
    set_to = found.settings.debian_mirror
    if set_to:
        if urlsplit(set_to).username is not None:
            raise UsageError(
                f"{found.origins['debian_mirror']}: debian_mirror may not hold a user's name or password",
                "a mirror that wants none, such as a proxy on this machine",
            )
        return set_to.rstrip("/")
    others = []
    sources = list(_sources(apt))
    updated = {address for address, suites, _ in sources if any(each.endswith("-updates") for each in suites)}
    for address, suites, components in sources:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or parts.username is not None or "main" not in components:
            continue
        if not parts.path.rstrip("/").endswith("/debian") and address not in updated:
            continue  # another vendor's packages: their suites are called stable and bookworm, too
        if suite in suites:
            return address.rstrip("/")
        if not {*_BY_AGE, *_BY_NAME}.isdisjoint(suites):
            others.append(address.rstrip("/"))
    return next(iter(others), DEBIAN)


def _sources(apt: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield address, suites and components of each archive of binary packages, in apt's order."""
    parts = apt / "sources.list.d"
    for file in (apt / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else ())):
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        text = file.read_text(errors="replace")
        yield from _deb822(text) if file.suffix == ".sources" else _lines(text)


def _lines(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Read the format of one line for each archive: `deb [option=value …] ADDRESS SUITE COMPONENT…`."""
    for line in text.splitlines():
        found = re.match(r"\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line)
        if found:
            yield found[1], [found[2]], found[3].split()


def _deb822(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Read stanzas of `Key: values`, a line that begins with a space going on with the one before."""
    for stanza in re.split(r"\n\s*\n", text):
        values: dict[str, list[str]] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace():
                values.setdefault(key, []).extend(line.split())
            elif ":" in line:
                key, _, rest = line.partition(":")
                key = key.strip().lower()
                values[key] = rest.split()
        if "deb" in values.get("types", []) and [v.lower() for v in values.get("enabled", [])] != ["no"]:
            for address in values.get("uris", []):
                yield address, values.get("suites", []), values.get("components", [])

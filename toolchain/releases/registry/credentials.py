"""Passwords for registries, as Docker's own configuration has them or its credential helpers know them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

_HELPER = re.compile(r"[A-Za-z0-9_-]+")
_HELPER_SECONDS = 60.0  # it may ask the user to unlock a key ring


def password_for(registry: str) -> str:
    """Return user and password for a registry by Docker's configuration, in base64; empty: it has none."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        configuration = json_object((folder / "config.json").read_bytes())
    except OSError:
        return ""
    entries, helpers = (configuration.get(key) for key in ("auths", "credHelpers"))
    for host in _names_of(registry):
        entry = entries.get(host) if isinstance(entries, dict) else None
        if isinstance(entry, dict) and isinstance(entry.get("auth"), str) and entry["auth"].isascii():
            return str(entry["auth"])
        helper = helpers.get(host) if isinstance(helpers, dict) else None
        if found := _ask_helper(helper or configuration.get("credsStore"), host):
            return found
    return ""


def _names_of(registry: str) -> tuple[str, ...]:
    """Return the names under which `docker login` may have put a registry."""
    for one, other in (("localhost", "127.0.0.1"), ("127.0.0.1", "localhost")):
        if registry.partition(":")[0] == one:
            return registry, registry.replace(one, other, 1)
    return (registry,)


def _ask_helper(name: object, host: str) -> str:
    """Return what Docker's credential helper of that name has for a host; empty: nothing."""
    if not isinstance(name, str) or not _HELPER.fullmatch(name):
        return ""
    try:
        done = subprocess.run(
            [f"docker-credential-{name}", "get"],
            input=host.encode(),
            capture_output=True,
            timeout=_HELPER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    answer = json_object(done.stdout)
    user, secret = answer.get("Username"), answer.get("Secret")
    if not isinstance(user, str) or not isinstance(secret, str):
        return ""
    return b64encode(f"{user}:{secret}".encode()).decode()


def json_object(text: bytes) -> dict[str, Any]:
    """Return the object of a JSON document; an empty one if it has none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}

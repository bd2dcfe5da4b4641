"""Opens a registry with oras: how it is reached, whom it believes, with which credentials.

Left alone, oras reads no DOCKER_CONFIG, sends a password to the host that a registry calls its realm even
where that is a text for people, waits without deadlines, and repeats what fails for two minutes.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

from toolchain.errors import MissingError, ToolchainError
from toolchain.releases.registry.address import ReleaseAddress

CERTIFICATES = Path("/etc/docker/certs.d")  # where Docker looks for the authorities of registries
CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0


def open_registry(address: ReleaseAddress) -> Any:
    """Return oras's client of the address's registry, with the credentials of Docker's configuration.

    Raises
    ------
    MissingError
        oras is not installed.
    ToolchainError
        The registry wants a password over plain http.
    requests.exceptions.RequestException
        It cannot be reached.
    """
    try:
        from oras.logger import setup_logger
        from oras.provider import Registry
    except ImportError as error:
        raise MissingError(
            "releases in registries need the Python package oras", "pip install 'edge-toolchain[registry]'"
        ) from error
    setup_logger(quiet=True)  # errors are raised
    authority = authority_of(address)
    trusted = str(authority) if authority.is_file() else True
    prefix, challenge = _first_answer(address, trusted)
    backend = "basic" if challenge.lower().startswith("basic") else "token"
    if backend == "token" and 'realm="http:' in challenge and not address.is_loopback:
        raise ToolchainError(
            f"{address}: it wants credentials sent over plain http: {challenge[:200]}", "ask who runs it"
        )
    registry = Registry(address.registry, prefix == "http", trusted, backend)
    registry.do_request = MethodType(Registry.do_request.__wrapped__, registry)
    session = registry.session
    session.request = partial(session.request, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
    configuration = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    if configuration.is_file():
        registry.auth.load_configs(registry.get_container(str(address)), [str(configuration)])
    if backend == "basic" and not hasattr(registry.auth, "_basic_auth"):
        raise ToolchainError(f"{address}: unauthorized", f"log in: `docker login {address.registry}`")
    return registry


def authority_of(address: ReleaseAddress) -> Path:
    """Return the file of the authority that Docker trusts for this registry; it need not exist."""
    return CERTIFICATES / address.registry / "ca.crt"


def _first_answer(address: ReleaseAddress, trusted: str | bool) -> tuple[str, str]:
    """Return `https`, or `http` if this machine speaks only that; and how it asks for credentials."""
    import requests

    for prefix in ("https", "http"):
        try:
            response = requests.get(
                f"{prefix}://{address.registry}/v2/",
                verify=trusted,
                allow_redirects=False,
                timeout=(CONNECT_SECONDS, SILENCE_SECONDS),
            )
        except requests.exceptions.SSLError as error:
            if prefix == "http" or not address.is_loopback or "verify failed" in str(error):
                raise
        else:
            return prefix, response.headers.get("Www-Authenticate", "")
    raise AssertionError("one of the two answers or raises")

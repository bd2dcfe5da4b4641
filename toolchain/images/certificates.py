"""TLS authorities of a site: trusted while images are built, and never part of an image."""

from __future__ import annotations

import hashlib
from pathlib import Path

import certifi

from toolchain.configuration.settings import cache_dir, configuration
from toolchain.errors import UsageError
from toolchain.files import atomic


def bundle() -> bytes:
    """Return the public authorities, and those of the setting `tls_authorities`, as PEM.

    Raises
    ------
    UsageError
        The setting names no folder of certificates.
    """
    public = Path(certifi.where()).read_bytes()
    current = configuration()
    folder = current.settings.tls_authorities
    if folder is None:
        return public
    files = sorted(folder.glob("*.crt")) if folder.is_dir() else []
    if not files:
        raise UsageError(
            f"{current.origins['tls_authorities']}: tls_authorities = {folder} holds no certificates",
            "a folder of *.crt files",
        )
    texts = {file: file.read_bytes() for file in files}
    for file, text in texts.items():
        if b"-----BEGIN CERTIFICATE-----" not in text:
            raise UsageError(f"{file} is not a certificate in PEM form", "openssl x509 -inform der -in FILE")
    return b"\n".join([public, *texts.values()])


def ensure_authorities() -> Path | None:
    """Write `bundle()` to the cache for programs of this machine; None if `tls_authorities` is not set.

    Without the setting, programs use their own configuration.
    """
    if configuration().settings.tls_authorities is None:
        return None
    content = bundle()
    file = cache_dir() / "images" / f"authorities-{hashlib.sha256(content).hexdigest()[:16]}.pem"
    if not file.is_file():
        atomic.write_bytes(file, content)
    return file

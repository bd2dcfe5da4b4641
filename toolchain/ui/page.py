"""The page, and the headers with which it is sent."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from functools import lru_cache
from pathlib import Path

_FILE = Path(__file__).with_name("page.html")
_INLINE = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


@lru_cache(maxsize=1)
def page() -> bytes:
    """Return the page, which is the same for everybody: what it shows comes by the event stream."""
    return _FILE.read_bytes()


@lru_cache(maxsize=1)
def security_headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of every answer. A browser runs the page's own script and nothing else."""
    hashes: dict[bytes, str] = {}
    for kind, text in _INLINE.findall(page()):
        hashes[kind] = f"'sha256-{b64encode(hashlib.sha256(text).digest()).decode()}'"
    policy = {
        "default-src": "'none'",
        "script-src": hashes[b"script"],
        "style-src": hashes[b"style"],
        "img-src": "data:",  # the icon
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return (
        ("Content-Security-Policy", "; ".join(f"{name} {value}" for name, value in policy.items())),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    )

"""The Debian that images stand on: made here, the same every time."""

from __future__ import annotations

import pytest

from toolchain.errors import ToolchainError
from toolchain.images.debian.bootstrap import ensure_debian
from toolchain.images.engine import Engine

pytestmark = pytest.mark.slow


def test_debian_image_is_reproducible_and_names_no_mirror(engine: Engine) -> None:
    name = ensure_debian(engine, print)
    first = engine.api.inspect_image(name)["Id"]
    assert ensure_debian(engine, print, anew=True) == name
    assert engine.api.inspect_image(name)["Id"] == first
    container = engine.api.create_container(name, ["true"])["Id"]
    try:
        with pytest.raises(ToolchainError, match=r"etc/apt/sources\.list"):
            engine.read(container, "/etc/apt/sources.list")
        assert b"Package: apt\n" in engine.read(container, "/var/lib/dpkg/status")
    finally:
        engine.api.remove_container(container)

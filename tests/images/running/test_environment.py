"""What a command line of this package is given in a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.configuration.settings import cache_dir
from toolchain.images.running.environment import Ready, environment, image_here, lock_here


def test_environment_has_this_hosts_cache_and_nothing_else() -> None:
    variables = environment()
    assert Path(variables["TOOLCHAIN_CACHE_DIR"]) == cache_dir().absolute()
    assert not {"TOOLCHAIN_DATA_DIR", "TOOLCHAIN_STATE_DIR"} & variables.keys()
    assert Path(variables["HOME"]) != Path.home()


def test_environment_names_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(Ready("base", "sha256:1", "c0ffee", False)).items():
        monkeypatch.setenv(name, value)
    assert (image_here(), lock_here()) == ("sha256:1", "c0ffee")

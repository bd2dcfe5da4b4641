"""What a command line of this package is given in a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.configuration.settings import cache_dir
from toolchain.images.running.environment import environment
from toolchain.images.running.inside import image_here, lock_here
from toolchain.images.running.placement import Ready


def test_it_has_this_hosts_cache_and_nothing_else_of_it() -> None:
    given = environment()
    assert Path(given["TOOLCHAIN_CACHE_DIR"]) == cache_dir().absolute()
    assert not {"TOOLCHAIN_DATA_DIR", "TOOLCHAIN_STATE_DIR"} & given.keys()
    assert Path(given["HOME"]) != Path.home()


def test_it_says_which_image_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(Ready("base", "sha256:1", "c0ffee", False)).items():
        monkeypatch.setenv(name, value)
    assert (image_here(), lock_here()) == ("sha256:1", "c0ffee")

"""A connected engine, the images that are really built, and a copy of what they are made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolchain.images import catalogue, contents
from toolchain.images.engine import Engine, connect
from toolchain.images.listing import ImageState
from toolchain.images.making.build import build_images


@pytest.fixture
def engine() -> Iterator[Engine]:
    with connect() as connected:
        yield connected


@pytest.fixture(scope="session")
def built() -> Callable[[str], ImageState]:
    """Make sure that an image is current; it is kept, and so are the engine's steps, for the next run."""

    def build(name: str) -> ImageState:
        with connect() as engine:
            return build_images(engine, [name], progress=print)[-1].state

    return build


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of `docker/` that images are made of from now on."""
    folder = tmp_path / "checkout" / "docker"
    shutil.copytree(catalogue.docker_folder(), folder)
    shutil.copy(contents.lock_file(), folder.parent)
    for module in (catalogue, contents):
        monkeypatch.setattr(module, "docker_folder", lambda: folder)
    return folder

"""Wheel and sdist of this tree, built once for a file of tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.distribution.building import Packages, build_packages, build_wheel
from tools.distribution.tree import copy_tree

MADE = 1_790_000_000


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """Return packages that were built from a copy of this tree, which is gone."""
    folder = tmp_path_factory.mktemp("packages")
    source = copy_tree(folder / "source")
    found = build_packages(source, folder / "dist", MADE)
    shutil.rmtree(source)
    return found


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of a later version: these sources, which call themselves 0.2.0."""
    folder = tmp_path_factory.mktemp("later")
    source = copy_tree(folder / "source")
    file = source / "toolchain" / "__init__.py"
    text = file.read_text()
    assert text.count('__version__ = "0.1.0"') == 1
    file.write_text(text.replace('__version__ = "0.1.0"', '__version__ = "0.2.0"'))
    found = build_wheel(source, folder / "dist", MADE)
    shutil.rmtree(source)
    return found

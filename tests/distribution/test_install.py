"""The wheel, installed beside nothing of this checkout, does what the checkout does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distribution.watched import watch
from toolchain import __version__
from toolchain.images.catalogue import catalogue
from toolchain.images.contents import sources_digest
from toolchain.runtime.fingerprint import expected_fingerprint
from tools.distribution.building import Packages
from tools.distribution.checking import FirstDay, WheelError
from tools.distribution.fresh import Fresh, fresh_environment
from tools.distribution.tree import ROOT

pytestmark = pytest.mark.slow  # builds packages, and a network

# Programs of this version, which take minutes to compile, are in the cache by their content.
CACHE = {"TOOLCHAIN_CACHE_DIR": os.environ["TOOLCHAIN_CACHE_DIR"], "TOOLCHAIN_JOBS": "1"}


@pytest.fixture(scope="module")
def fresh(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    found = fresh_environment(tmp_path_factory.mktemp("fresh"))
    found.install(packages.wheel)
    yield found


def asked(fresh: Fresh, program: str) -> str:
    done = subprocess.run(
        [fresh.python, "-I", "-c", program], capture_output=True, text=True, timeout=60, cwd="/", check=True
    )
    return done.stdout.strip()


def test_the_modules_are_the_wheels(fresh: Fresh) -> None:
    assert asked(fresh, "import toolchain; print(toolchain.__file__)").startswith(str(fresh.packages))
    assert (
        asked(fresh, "from importlib.metadata import version as v; print(v('edge-toolchain'))") == __version__
    )


def test_images_and_edge_rt_are_made_from_the_same_sources(fresh: Fresh) -> None:
    names = [name for name, image in catalogue().items() if not image.system]
    program = "from toolchain.images.catalogue import image_named as i; " + (
        "from toolchain.images.contents import sources_digest as d; "
        f"print(*(d(i(name)) for name in {names!r}))"
    )
    assert asked(fresh, program).split() == [sources_digest(catalogue()[name]) for name in names]
    program = "from toolchain.runtime.fingerprint import expected_fingerprint as f; print(f())"
    assert asked(fresh, program) == expected_fingerprint()


def test_a_first_day_needs_nothing_of_the_checkout(fresh: Fresh, tmp_path: Path) -> None:
    opened = watch(fresh)
    FirstDay(fresh, tmp_path, CACHE).walk(__version__)
    assert not opened.exists(), opened.read_text()
    assert not list(fresh.home.rglob("*.py"))
    asked(fresh, f"open({str(ROOT / 'README.md')!r})")
    assert opened.read_text() == f"{ROOT / 'README.md'}\n", "the watch sees what is opened"


def test_a_wheel_that_lacks_a_table_does_not_pass(fresh: Fresh, tmp_path: Path) -> None:
    shipped = fresh.packages / "toolchain" / "boards_shipped"
    shipped.rename(tmp_path / "away")
    try:
        with pytest.raises(WheelError, match="board list"):
            FirstDay(fresh, tmp_path, CACHE).walk(__version__, docker=False)
    finally:
        (tmp_path / "away").rename(shipped)

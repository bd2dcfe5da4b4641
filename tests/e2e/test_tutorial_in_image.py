"""The tutorial of a VTA in its image: by a user who is not root, with no network but loopback."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from docs.walk_in_image import WALK, seen_by_the_daemon, walking
from tests.e2e.vta_tutorial import NETWORK, PAGE, check_what_was_said, small_network
from toolchain.configuration.settings import configuration
from toolchain.images.engine import Engine, connect
from toolchain.images.making.build import build_images
from toolchain.images.running.environment import Ready
from toolchain.images.running.placement import choose
from toolchain.images.running.step import PURPOSE, run_step
from toolchain.runtime import ensure_runtime

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),  # where nothing is cached, images are made and edge-rt is compiled
]

IMAGE = "vta-sim"
NOBODY = 65534
_ENDS_S = 120


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with connect() as connected:
        build_images(connected, [IMAGE], progress=print)
        yield connected


@pytest.fixture(scope="module")
def image(engine: Engine) -> Ready:
    ready = choose("docker", IMAGE).image
    assert engine.is_local and ready is not None and not ready.stale
    return ready


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a user who is not root, and has a cache in which edge-rt is."""
    cache = tmp_path / "cache"
    for arch in ("armv7", "x86_64"):
        there = ensure_runtime(arch).program.parent
        shutil.copytree(there, cache / "runtime" / there.name)
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(cache))
    configuration.cache_clear()  # it was read for the runtimes
    if os.getuid():
        return os.getuid()
    for path in (cache, *cache.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return NOBODY


@pytest.mark.usefixtures("state")
def test_the_whole_page(engine: Engine, image: Ready, user: int, tmp_path: Path) -> None:
    networks = {NETWORK: small_network(tmp_path)}
    out = io.BytesIO()
    with seen_by_the_daemon([WALK, PAGE, *networks.values()]) as folder:
        folder.chmod(0o755)
        step = walking(image, folder, PAGE, networks, budget="1")
        code = run_step(engine, replace(step, user=(user, user), groups=()), out, out)
    printed = out.getvalue().decode()
    assert code == 0, printed[-4000:]
    said = defaultdict(list)
    for typed in printed.split("$ toolchain ")[1:]:
        said[typed.split()[0]].append(typed)
    check_what_was_said(said)
    assert re.search(r"^done: vta.md, every command succeeded, in \d+ s$", printed, re.MULTILINE)


def walk(page: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WALK), str(page), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.usefixtures("image")
def test_ctrl_c_leaves_no_container(engine: Engine, state: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    tune = f"tune {NETWORK} --board pynq --device vta --dtype int8 --trials 100000"
    page.write_text(f"    $ toolchain --version\n    $ toolchain {tune}\n")
    with walk(page, "--image", IMAGE) as process:
        try:
            assert process.stdout is not None
            assert any(line.startswith("$ toolchain tune") for line in process.stdout)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=_ENDS_S)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGINT and said.endswith("stopped: interrupted\n")
    owned = [
        each for each in engine.containers(PURPOSE) if each.labels.get("edge-toolchain.state") == str(state)
    ]
    assert owned == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--image", "nothing"), r"error: no image 'nothing' \(the images are: base"),
        (("--network", "zoo:resnet-18=missing.onnx"), "--network: there is no file 'missing.onnx'"),
        (("--network", "missing.onnx"), "--network: 'missing.onnx' is not NAME=FILE"),
    ],
)
def test_what_cannot_be_walked_is_told(options: tuple[str, ...], said: str) -> None:
    with walk(PAGE, *options) as process:
        printed, _ = process.communicate(timeout=_ENDS_S)
    assert process.returncode == 2 and re.search(said, printed), printed

"""Smoke tests of images: what they see, how they end, and that nothing of them is left."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.small_image import small_image
from tests.unique import UNIQUE
from tests.waiting import PATIENCE_S
from toolchain.configuration.settings import cache_dir, configuration
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images import catalogue
from toolchain.images.catalogue import Image, image_named
from toolchain.images.engine import Engine
from toolchain.images.making import smoke
from toolchain.images.making.build import build_images
from toolchain.images.making.smoke import smoke_test

pytestmark = pytest.mark.slow

IMAGE = Image(name=f"test-smoke-{UNIQUE}", description="a test", folder="mine")


@pytest.fixture
def script(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the smoke test of an image that holds a shell and little else."""
    for name in ("docker/mine", "docker/smoke", "cache", "image"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "docker" / "smoke" / "shared.txt").write_text("shared\n")
    for module in (smoke, catalogue):
        monkeypatch.setattr(module, "docker_folder", lambda: tmp_path / "docker")
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    configuration.cache_clear()  # connecting to the engine has read it
    with small_image(engine, tmp_path / "image", IMAGE.tag):
        yield tmp_path / "docker" / "mine" / "smoke.sh"
    assert list((cache_dir() / "images").iterdir()) == []


def test_smoke_test_gets_a_folder_the_cache_and_no_network(engine: Engine, script: Path) -> None:
    script.write_text(
        'set -eu; cat "${0%/*}/../smoke/shared.txt"; echo made > file; cat file\n'
        'echo kept > "$TOOLCHAIN_CACHE_DIR/result"; ls /sys/class/net; echo "$TOOLCHAIN_ENGINE"; id -u\n'
        "mkdir /usr/x 2>/dev/null || echo refused\n"
    )
    out = io.BytesIO()
    tested = smoke_test(engine, IMAGE, out)
    assert tested.passed and tested.exit_code == 0 and str(tested).startswith("passed in ")
    lines = out.getvalue().decode().split("\n")
    assert lines[:2] == ["shared", "made"] and {"lo", "host", str(os.getuid()), "refused"} <= set(lines)
    assert "eth0" not in lines
    assert (cache_dir() / "result").read_text() == "kept\n"


def test_failing_smoke_test(engine: Engine, script: Path) -> None:
    script.write_text("echo broken >&2; exit 5\n")
    out = io.BytesIO()
    tested = smoke_test(engine, IMAGE, out)
    assert not tested.passed and tested.exit_code == 5 and out.getvalue() == b"broken\n"
    assert str(tested).startswith("failed with exit code 5 in ")


@pytest.mark.slow
def test_hanging_smoke_test_is_ended(engine: Engine, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke, "SECONDS", 1)
    script.write_text("sleep 600\n")
    assert str(smoke_test(engine, IMAGE, io.BytesIO())) == "did not end within 1 s"


def test_smoke_test_of_a_missing_image(engine: Engine) -> None:
    with pytest.raises(MissingError, match=r"is not here \(toolchain image build"):
        smoke_test(engine, IMAGE, io.BytesIO())


def test_smoke_test_refuses_a_remote_daemon(engine: Engine) -> None:
    with pytest.raises(UsageError, match="DOCKER_HOST=tcp://elsewhere"):
        smoke_test(Engine(engine.api, "tcp://elsewhere:2375"), IMAGE, io.BytesIO())


@pytest.mark.slow
@pytest.mark.timeout(1800)  # where nothing is cached, images are made and edge-rt is compiled
@pytest.mark.parametrize("name", ["base", "aarch64", "armhf", "vta-sim", "board-arm64", "board-armhf"])
def test_all_images_pass_their_smoke_test(engine: Engine, name: str) -> None:
    build_images(engine, [name], progress=print)
    out = io.BytesIO()
    tested = smoke_test(engine, image_named(name), out)
    assert tested.passed, out.getvalue().decode()
    assert out.getvalue().startswith(b"ok: ")


def test_ctrl_c_ends_a_smoke_test(engine: Engine, script: Path, tmp_path: Path) -> None:
    script.write_text("echo begun; exec sleep 600\n")
    code = (
        "import sys; from pathlib import Path\n"
        "from toolchain.images import catalogue\n"
        "from toolchain.images.making import smoke\n"
        "from toolchain.images.engine import connect\n"
        f"catalogue.docker_folder = smoke.docker_folder = lambda: Path({str(tmp_path / 'docker')!r})\n"
        f"image = catalogue.Image(name={IMAGE.name!r}, description='x', folder='mine')\n"
        "with connect() as engine: smoke.smoke_test(engine, image, sys.stdout.buffer)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == b"begun\n"
        began = time.monotonic()
        owner.send_signal(signal.SIGINT)
        owner.communicate(timeout=PATIENCE_S)
        assert owner.returncode == -signal.SIGINT and time.monotonic() - began < PATIENCE_S
    containers = engine.api.containers(all=True, filters={"ancestor": IMAGE.tag})
    assert containers == []


@pytest.mark.usefixtures("script")
def test_unwritable_cache_is_reported(engine: Engine) -> None:
    folder = cache_dir() / "images"
    folder.touch()
    with pytest.raises(ToolchainError, match=r"cannot write .*images"):
        smoke_test(engine, IMAGE, io.BytesIO())
    folder.unlink()
    folder.mkdir()

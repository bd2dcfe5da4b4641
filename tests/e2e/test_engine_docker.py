"""Building and tuning in containers of the real images, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.measuring.small_network import network
from toolchain.bundles.manifest import Manifest
from toolchain.bundles.read import read_bundle
from toolchain.events.lines import BeganLine, EndLine
from toolchain.events.log import Follower, log_files
from toolchain.images.catalogue import image_named
from toolchain.images.contents import lock_digest
from toolchain.images.engine import Engine, connect
from toolchain.images.making.build import build_images
from toolchain.images.running.step import PURPOSE

pytestmark = pytest.mark.slow

BOARD = "engine-docker"
_DEADLINE_S = 600


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Yield a daemon that has the images of the classes that are built for here, up to date."""
    with connect() as connected:
        build_images(connected, ["aarch64", "armhf"], progress=print)
        yield connected


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with a network, a state and records of its own, and an emulated board there."""
    folder = tmp_path_factory.mktemp("engine")
    network(folder / "small.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(folder / "state"))
        patch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
        yield folder
        toolchain(folder, "lab", "stop")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "toolchain", *arguments]


def toolchain(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=folder, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
    )


def built(folder: Path, engine: str, board: str) -> tuple[bytes, Manifest]:
    arguments = ("build", "small.onnx", "--board", board, "-o", f"{engine}-{board}", "--engine", engine)
    ended = toolchain(folder, *arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert Path(said["library"]).is_relative_to(folder)
    return Path(said["library"]).read_bytes(), read_bundle(Path(said["bundle"])).manifest


def test_a_container_writes_the_log_that_the_page_shows(engine: Engine, home: Path) -> None:
    assert engine
    before = {path.name for path in log_files(home / "state" / "events")}
    built(home, "docker", "rk3399")
    logs = {
        name: lines
        for name, lines in Follower(home / "state" / "events").read().items()
        if name not in before
    }
    ((began, *_, end),) = logs.values()
    assert isinstance(began, BeganLine) and began.title == "small.onnx for rk3399"
    assert isinstance(end, EndLine) and end.how == "done"


@pytest.mark.parametrize("board", ["rk3399", "pynq"])
def test_a_library_is_the_same_wherever_it_is_built(engine: Engine, home: Path, board: str) -> None:
    here, on_host = built(home, "host", board)
    there, in_container = built(home, "docker", board)
    assert here == there
    assert on_host.engine.model_dump() == {"kind": "host", "image": None, "lock": None}
    image = image_named({"rk3399": "aarch64", "pynq": "armhf"}[board])
    assert in_container.engine.model_dump() == {
        "kind": "docker",
        "image": engine.api.inspect_image(image.tag)["Id"],
        "lock": lock_digest(),
    }
    assert on_host == in_container.model_copy(update={"engine": on_host.engine})


@pytest.mark.usefixtures("engine")
def test_a_full_disk_is_told_and_nothing_is_left(home: Path) -> None:
    folder = home / "full"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=0777", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(mounted, check=False).returncode:
        assert "CI" not in os.environ, "no tmpfs can be mounted"
        pytest.skip("no tmpfs can be mounted here")
    try:
        ended = toolchain(
            home, "build", "small.onnx", "--board", "rk3399", "-o", "full", "--engine", "docker"
        )
        assert ended.returncode == 1
        assert "cannot write full/" in ended.stderr and "No space left on device" in ended.stderr
        assert list(folder.iterdir()) == []
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def board(home: Path) -> Iterator[str]:
    started = toolchain(home, "board", "emulate", "start", "rk3399", "--kind", "process", "--name", BOARD)
    assert started.returncode == 0, started.stderr
    yield BOARD
    toolchain(home, "board", "emulate", "stop", BOARD)


def tune(board: str, trials: int) -> list[str]:
    return ["tune", "small.onnx", "--board", board, "--trials", str(trials), "--engine", "docker"]


@contextmanager
def tuning(home: Path, board: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a run of which a first trial has been measured."""
    arguments = command(*tune(board, 1000), *more)
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, cwd=home, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stderr
            assert any("/1000" in line for line in process.stderr)
            yield process
        finally:
            process.kill()


def containers(engine: Engine, home: Path) -> list[str]:
    """Return the containers of steps of this folder's own."""
    state = str(home / "state")
    return [c.id for c in engine.containers(PURPOSE) if c.labels.get("edge-toolchain.state") == state]


def records(home: Path) -> int:
    with sqlite3.connect(home / "data" / "records.sqlite") as store:
        return int(store.execute("SELECT count(*) FROM records").fetchone()[0])


def no_lab(home: Path) -> bool:
    return toolchain(home, "lab", "status").stdout.startswith("no lab")


@pytest.mark.usefixtures("engine")
def test_tuning_in_a_container_measures_on_this_hosts_boards(home: Path, board: str) -> None:
    ended = toolchain(home, *tune(board, 4), "--json")
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["trials"] == 4 and said["failed"] == 0
    assert records(home) > 4
    assert no_lab(home)
    listed = toolchain(home, "build", "small.onnx", "--board", board, "-o", "tuned", "--json")
    assert json.loads(listed.stdout)["tasks"]["tuned"] > 0


def test_ctrl_c_leaves_neither_a_container_nor_a_lab(engine: Engine, home: Path, board: str) -> None:
    with tuning(home, board) as process:
        assert len(containers(engine, home)) == 1
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=_DEADLINE_S)
    assert process.returncode == 130
    own = [line for line in said.splitlines() if "BlockBuilder destroyed" not in line]
    assert own[-1] == "error: interrupted"  # TVM may have been writing a network
    assert said.count("error: interrupted") == 1
    assert records(home) > 0
    assert containers(engine, home) == []
    assert no_lab(home)

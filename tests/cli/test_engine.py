"""`--engine`: the same command line, here or in a container, where a stand-in says what it got."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import onnx
import pytest
from onnx import helper

from tests.cli.running import Toolchain
from tests.images.small_image import small_image
from tests.models.graphs import graph_of, tensor_info
from tests.unique import UNIQUE
from toolchain.cli.engine import container_for
from toolchain.configuration.settings import configuration
from toolchain.devices import cuda_architectures as native_cuda
from toolchain.errors import UsageError
from toolchain.host import host_profile
from toolchain.images import listing
from toolchain.images.catalogue import Image
from toolchain.images.contents import LOCK_LABEL, sources_digest
from toolchain.images.engine import SOURCES_LABEL, connect
from toolchain.images.running import placement
from toolchain.images.running.environment import Ready
from toolchain.images.running.placement import Placement
from toolchain.profiles import profile_folders
from toolchain.rpc.lab import PORT_VARIABLE, join

IMAGE = Image(name=f"test-engine-{UNIQUE}", description="its `toolchain` is a script", folder="base")
PROGRAM = """#!/bin/sh
for word in "$@"; do
    echo "<$word>"
    [ "$word" = zoo:fails ] && { echo "error: it says so itself" >&2; exit 2; }
    [ "$word" = zoo:writes ] && echo made > out/file
    [ "$word" = zoo:tells ] && env
done
echo "in $(pwd)"
"""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the id of an image for every board class."""
    labels = {SOURCES_LABEL: sources_digest(IMAGE), LOCK_LABEL: "1" * 64}
    folder = tmp_path_factory.mktemp("image")
    with (
        connect() as engine,
        small_image(engine, folder, IMAGE.tag, labels, scripts={"toolchain": PROGRAM}) as tag,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(placement, "image_named", lambda _: IMAGE)
        patch.setattr(listing, "foundation_name", lambda _: f"{IMAGE.name}-stands-on-nothing")
        yield engine.api.inspect_image(tag)["Id"]


BUILD = ("build", "--board", "rk3399", "-o", "out")


def small_network(path: Path, name: str = "x") -> None:
    """Write a network of one operator; what is no network is refused before anything else is asked."""
    relu = helper.make_node("Relu", [name], ["y"])
    inputs, outputs = ([tensor_info(each, [1, 2])] for each in (name, "y"))
    onnx.save(graph_of([relu], inputs, outputs, {}), path)


@pytest.mark.usefixtures("image")
def test_the_same_arguments_arrive_inside(invoke: Toolchain, folder: Path) -> None:
    typed = [
        "-v",
        *BUILD,
        "--engine",
        "docker",
        "--shape",
        "a b=1,2",
        "--sample",
        "x='y'",
        "--",
        "-odd $HOME.onnx",
    ]
    small_network(folder / typed[-1], "a b")
    ran = invoke(*typed)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [*(f"<{word}>" for word in typed), f"in {folder}"]
    assert ran.err == ""


@pytest.mark.usefixtures("image")
def test_container_exit_code_and_output_are_passed_on(invoke: Toolchain, folder: Path) -> None:
    ran = invoke(*BUILD, "zoo:fails", "--engine", "docker", "--json")
    assert ran.code == 2
    assert ran.err == "error: it says so itself\n"
    assert ran.out.endswith("<zoo:fails>\n")
    assert list(folder.iterdir()) == []  # no output folder either


@pytest.mark.usefixtures("image")
def test_files_written_in_container_exist(invoke: Toolchain, folder: Path) -> None:
    assert invoke(*BUILD, "zoo:writes", "--engine", "docker").code == 0
    assert (folder / "out" / "file").read_text() == "made\n"
    assert (folder / "out" / "file").stat().st_uid == os.getuid()


def test_it_sees_our_folders_and_nothing_of_the_environment(
    invoke: Toolchain, image: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/secret")
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", "relative")
    monkeypatch.setenv("TOOLCHAIN_JOBS", "3")
    ran = invoke(*BUILD, "zoo:tells", "--engine", "docker")
    environment = dict(line.partition("=")[::2] for line in ran.out.splitlines() if "=" in line)
    assert environment["EDGE_TOOLCHAIN_IMAGE"] == image
    assert environment["EDGE_TOOLCHAIN_LOCK"] == "1" * 64
    assert environment["TOOLCHAIN_ENGINE"] == "host"
    assert environment["TOOLCHAIN_DATA_DIR"] == str(folder / "relative")
    assert environment["TOOLCHAIN_CACHE_DIR"] == os.environ["TOOLCHAIN_CACHE_DIR"]
    assert environment["TOOLCHAIN_JOBS"] == "3"
    assert environment["HOME"] == "/tmp"
    assert "SSH_AUTH_SOCK" not in environment and PORT_VARIABLE not in environment


@pytest.mark.usefixtures("image")
def test_option_before_environment_before_file(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "toolchain.toml").write_text("engine = 'docker'\n")
    missing, there = (*BUILD, "missing.onnx"), (*BUILD, "zoo:mobilenet")
    inside = f"in {folder}\n"
    assert inside not in invoke(*missing).out  # TOOLCHAIN_ENGINE=host, as everywhere in these tests
    monkeypatch.delenv("TOOLCHAIN_ENGINE")
    configuration.cache_clear()
    ran = invoke(*there)
    assert ran.out.endswith(inside) and ran.err == ""
    ran = invoke(*missing, "--engine", "auto")
    assert ran.says("there is no file missing.onnx") and "engine:" not in ran.err
    ran = invoke(*there, "--engine", "auto")
    assert ran.out.endswith(inside) and ran.err == "engine: docker, image aarch64\n"
    monkeypatch.setenv("TOOLCHAIN_ENGINE", "host")
    configuration.cache_clear()
    assert invoke(*missing).says("there is no file missing.onnx")
    assert inside in invoke(*there, "--engine", "docker").out


@pytest.mark.usefixtures("image")
def test_usage_errors_start_no_container(invoke: Toolchain, folder: Path) -> None:
    assert invoke(*BUILD, "m.onnx", "--engine", "cloud").code == 2
    assert invoke("build", "m.onnx", "-o", "out", "--board", "nobody", "--engine", "docker").says("nobody")
    ran = invoke("build", "zoo:mobilenet", "-o", "/tmp", "--board", "rk3399", "--engine", "docker")
    assert ran.code == 2 and ran.says("/tmp", "--engine host")
    ran = invoke("build", "m.onnx", "-o", "/tmp", "--board", "rk3399", "--engine", "auto")
    assert ran.code == 2 and ran.says("there is no file m.onnx") and "engine:" not in ran.err
    assert list(folder.iterdir()) == []


def test_refuses_class_with_unknown_image(invoke: Toolchain, folder: Path) -> None:
    (folder / "toolchain.toml").touch()
    own = folder / "boards" / "mine"
    own.mkdir(parents=True)
    text = (profile_folders()[-1] / "rk3399" / "board.toml").read_text()
    (own / "board.toml").write_text(text.replace('image = "aarch64"', 'image = "debian"'))
    ran = invoke("build", "zoo:mobilenet", "--board", "mine", "-o", "out", "--engine", "auto")
    assert ran.code == 2 and ran.says("board class mine: image = 'debian'", "the images are: base, ")


def test_missing_docker_is_reported(invoke: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    ran = invoke(*BUILD, "zoo:mobilenet", "--engine", "docker")
    assert ran.code == 3 and ran.says("no Docker daemon answers at unix:///nowhere/docker.sock", "hint: ")
    ran = invoke(*BUILD, "zoo:mobilenet", "--engine", "docker", "--json")
    assert ran.code == 3 and json.loads(ran.out)["error"]["code"] == 3
    ran = invoke(*BUILD, "m.onnx", "--engine", "auto")
    assert ran.code == 2 and ran.says("there is no file m.onnx")
    assert "engine: " not in ran.err, "the command does not get as far"


@pytest.mark.usefixtures("state")
def test_why_it_runs_on_this_host_is_said_once(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    small_network(folder / "m.onnx")
    build = (*BUILD, "m.onnx", "--engine", "auto", "--sample", "x=missing.npy")
    said = "engine: host, since no Docker daemon answers at unix:///nowhere/docker.sock"
    again = [invoke(*build).err for _ in range(2)]
    assert again[0].count(said) == 1 and "engine:" not in again[1]
    assert invoke("-v", *build).err.count(said) == 1, "with -v each time"
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere/docker.sock")
    assert "at unix:///elsewhere" in invoke(*build).err, "for another reason"


def test_a_lab_that_was_joined_outside_is_taken_as_it_is(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PORT_VARIABLE, "4711")
    with join([]) as lab:
        assert (lab.host, lab.port) == ("127.0.0.1", 4711)
    assert not state.exists()


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("command", ["build", "tune"])
def test_files_that_freeze_inputs_are_seen_inside(
    command: str, invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "values.npy").touch()
    seen: list[Path] = []

    def asked(
        _engine: str, _profile: object, _kind: str, reads: Iterable[Path], *_: object, **__: object
    ) -> NoReturn:
        seen.extend(reads)
        raise UsageError("enough")

    monkeypatch.setattr(importlib.import_module(f"toolchain.cli.commands.{command}"), "container_for", asked)
    output = ["-o", "out"] if command == "build" else []
    values = ["--input-value", "mask=values.npy", "--input-value", "rate=3", "--input-value", "gone=gone.npy"]
    assert "enough" in invoke(command, "zoo:mobilenet", "--board", "local", *values, *output).err
    assert seen == [Path("values.npy")]


@pytest.mark.usefixtures("image")
def test_a_teams_records_are_not_reached_from_a_container_and_their_password_stays_here(
    invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_RECORDS_URL", "postgresql://team:secret@127.0.0.1:9/records")
    ran = invoke(*BUILD, "zoo:tells", "--engine", "docker")
    assert ran.code == 2 and ran.says("records_url is set", "--engine host") and "<build>" not in ran.out
    monkeypatch.setenv("TOOLCHAIN_ENGINE", "auto")
    configuration.cache_clear()
    ran = invoke(*BUILD, "zoo:tells")
    assert ran.says("engine: host, since records_url is set") and "<build>" not in ran.out
    assert "secret" not in ran.out + ran.err


def test_a_container_for_cuda_is_that_of_its_compiler_and_told_of_this_hosts_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def choose(_wanted: str, name: str) -> Placement:
        asked.append(name)
        return Placement(Ready(name, "id", "lock", stale=False))

    monkeypatch.setattr(placement, "choose", choose)
    monkeypatch.setattr(native_cuda, "native_architectures", lambda: ("sm_87", "sm_90"))
    local = host_profile()
    for kind in ("cpu", "cuda"):
        found = container_for("docker", local, kind, [])
        assert found is not None
        assert found.gpus == ({native_cuda.VARIABLE: "sm_87,sm_90"} if kind == "cuda" else {})
    assert asked == [local.image, "cuda"]

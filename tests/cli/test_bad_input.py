"""What users get wrong: one clear sentence, the right exit code, no traceback, nothing half-written."""

from __future__ import annotations

import io
import json
import resource
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import Toolchain
from tests.measuring.small_network import INPUT, built, network

if TYPE_CHECKING:
    from toolchain.bundles.read import Bundle

SHAPE = (1, 3, 16, 16)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    """Return the small network built for this host and for rk3399."""
    return {board: built(board, tmp_path_factory.mktemp(board)) for board in ("local", "rk3399")}


@pytest.fixture
def files(folder: Path) -> Path:
    """Return the commands' folder, with networks and arrays, good and bad ones."""
    good = network(folder / "good.onnx").read_bytes()
    (folder / "truncated.onnx").write_bytes(good[: len(good) // 2])
    (folder / "text.onnx").write_text("this is a letter\n")
    (folder / "empty.onnx").touch()
    (folder / "program.pt2").touch()
    model = onnx.load(folder / "good.onnx")
    onnx.save(
        model, folder / "external.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (folder / "weights.bin").unlink()
    nodes = [
        helper.make_node("Volume", ["x"], ["y"], "volume", domain="mine"),
        helper.make_node("Tidy", ["x"], ["t"], "tidy", domain="mine"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 3])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "yt"]
    graph = helper.make_graph(nodes, "odd", inputs, outputs)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    odd = helper.make_model(graph, opset_imports=sets, ir_version=8)
    onnx.save(odd, folder / "odd.onnx")
    np.save(folder / "good.npy", np.zeros(SHAPE, np.float32))
    np.save(folder / "shape.npy", np.zeros((1, 3, 8, 8), np.float32))
    np.save(folder / "dtype.npy", np.zeros(SHAPE, np.float64))
    np.save(folder / "objects.npy", np.array([None]), allow_pickle=True)
    (folder / "text.npy").write_text("1 2 3")
    return folder


def refused(toolchain: Toolchain, folder: Path, code: int, says: list[str], *arguments: object) -> None:
    """Assert that a command ends as it should, for people and for programs, and leaves no file."""
    before = sorted(folder.rglob("*"))
    ran = toolchain(*arguments)
    assert ran.code == code, ran.err + ran.out
    lines = [line.partition(":")[0] for line in ran.err.splitlines()]
    assert lines.count("error") == lines.count("hint") == 1, ran.err
    assert ran.says(*says), ran.err
    assert "bug" not in ran.err
    ran = toolchain(*arguments, "--json")
    assert ran.code == code
    error = ran.document["error"]
    assert error["code"] == code and error["message"] and error["hint"]
    assert sorted(folder.rglob("*")) == before


MODELS = [
    ("nosuch", 2, ["'nosuch'", "zoo:mobilenet"]),
    ("zoo:nosuch", 2, ["nosuch", "zoo:mobilenet"]),
    ("nosuch.onnx", 2, ["nosuch.onnx"]),
    ("truncated.onnx", 2, ["truncated.onnx"]),
    ("text.onnx", 2, ["text.onnx"]),
    ("empty.onnx", 2, ["empty.onnx"]),
    ("external.onnx", 2, ["external.onnx", "weights.bin"]),
    ("program.pt2", 2, ["program.pt2", "torch.onnx.export(torch.export.load("]),
    (".", 2, [". is a folder"]),
]


@pytest.mark.parametrize(("model", "code", "says"), MODELS, ids=[row[0] for row in MODELS])
def test_models(invoke: Toolchain, files: Path, model: str, code: int, says: list[str]) -> None:
    refused(invoke, files, code, says, "model", "inspect", model)
    refused(invoke, files, code, says, "build", model, "--board", "rk3399", "-o", "out")


def test_unsupported_operators_are_all_named(invoke: Toolchain, files: Path) -> None:
    says = ["odd.onnx", "mine.Volume", "volume", "mine.Tidy", "tidy"]
    refused(invoke, files, 2, says, "build", "odd.onnx", "--board", "rk3399", "-o", "out")


NAMES = [
    (["build", "good.onnx", "--board", "rk3388", "-o", "out"], ["--board rk3388", "rk3399"]),
    (["tasks", "good.onnx", "--board", "rk3388"], ["--board rk3388", "rk3399"]),
    (["board", "show", "nosuch"], ["nosuch", "local"]),
    (["tune", "good.onnx", "--board", "rk3399"], ["--board rk3399", "board emulate start rk3399"]),
    (["board", "emulate", "start", "nosuch"], ["nosuch", "rk3399"]),
    (["board", "emulate", "stop", "nosuch"], ["nosuch"]),
    (["board", "emulate", "start", "rk3399", "--name", "../x"], ["--name ../x"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--device", "npu"], ["--device npu", "cpu"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--cluster", "m1"], ["--cluster m1", "cortex-a53"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--show", "nosuch"], ["--show nosuch"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--dtype", "float16"], ["--dtype float16"]),
    (["tasks", "good.onnx", "--board", "local", "--dtype", "float16", "--layout", "NCHW"], ["--layout NCHW"]),
    (["model", "inspect", "good.onnx", "--shape", f"{INPUT}=1,3,8,8"], ["--shape", INPUT]),
    (["model", "inspect", "good.onnx", "--shape", "x"], ["--shape x", "NAME=D,D"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_names_and_options(invoke: Toolchain, files: Path, arguments: list[str], says: list[str]) -> None:
    refused(invoke, files, 2, says, *arguments)


CONFIGURATIONS = [
    ("bord = 'local'", ["bord", "board"]),
    ("jobs = 'many'", ["jobs", "'many'"]),
    ("jobs = ", ["toolchain.toml"]),
    ("engine = 'cloud'", ["engine", "'cloud'"]),
]


@pytest.mark.parametrize(("text", "says"), CONFIGURATIONS, ids=[row[0] for row in CONFIGURATIONS])
def test_configuration(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: list[str]
) -> None:
    monkeypatch.delenv("TOOLCHAIN_ENGINE")
    monkeypatch.delenv("TOOLCHAIN_JOBS")
    (folder / "toolchain.toml").write_text(text)
    refused(invoke, folder, 2, [str(folder / "toolchain.toml"), *says], "board", "list")


def test_a_bad_board_is_reported_with_the_place_it_came_from(
    invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "toolchain.toml").write_text('board = "from-file"\n')
    said = f"{files / 'toolchain.toml'}: board = 'from-file': there is no such board"
    refused(invoke, files, 2, [said], "tasks", "good.onnx")
    monkeypatch.setenv("TOOLCHAIN_BOARD", "from-shell")
    refused(invoke, files, 2, ["TOOLCHAIN_BOARD=from-shell: there is no such board"], "tasks", "good.onnx")
    monkeypatch.setenv("TOOLCHAIN_BOARD", "rk3399")
    with_class = ("tune", "good.onnx", "--trials", 1)
    refused(invoke, files, 2, ["TOOLCHAIN_BOARD=rk3399: that is a board class"], *with_class)
    typed = ("tasks", "good.onnx", "--board", "typed")
    refused(invoke, files, 2, ["--board typed: there is no such board"], *typed)


def test_a_broken_board_class_names_file_and_key(invoke: Toolchain, folder: Path) -> None:
    (folder / "toolchain.toml").touch()
    file = folder / "boards" / "mine" / "board.toml"
    file.parent.mkdir(parents=True)
    file.write_text('triple = "arm-linux"\n')
    refused(invoke, folder, 2, [str(file), "triple", "clusters"], "board", "show", "mine")


INPUTS = [
    ("data=good.npy", ["--input data", INPUT]),
    (f"{INPUT}=shape.npy", ["--input", "[1, 3, 8, 8]", "[1, 3, 16, 16]"]),
    (f"{INPUT}=dtype.npy", ["--input", "float64", "float32"]),
    (f"{INPUT}=text.npy", ["text.npy"]),
    (f"{INPUT}=objects.npy", ["objects.npy"]),
    (f"{INPUT}=nosuch.npy", ["nosuch.npy"]),
    ("good.npy", ["--input good.npy", "NAME=FILE.npy"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("value", "says"), INPUTS, ids=[row[0] for row in INPUTS])
def test_inputs(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle], value: str, says: list[str]
) -> None:
    bundle = bundles["local"].path
    refused(invoke, files, 2, says, "run", bundle, "--board", "local", "--input", value, "-o", "out.npz")
    says = [words.replace("--input", "--sample") for words in says]
    refused(invoke, files, 2, says, "build", "good.onnx", "--board", "local", "--sample", value, "-o", "out")


def changed_byte(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def with_member(name: str, size: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        info = tarfile.TarInfo(name)
        info.size = size
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            at = archive.getmembers()[1].offset
        return data[:at] + info.tobuf(tarfile.GNU_FORMAT) + data[at:]

    return change


BUNDLES: list[tuple[str, Callable[[bytes], bytes], int, list[str]]] = [
    ("changed byte", changed_byte, 4, []),
    ("path outside", with_member("../../etc/passwd", 0), 4, ["outside"]),
    ("huge member", with_member("huge", 2**40), 4, []),
    ("truncated", lambda data: data[: len(data) // 2], 2, []),
    ("empty", lambda _: b"", 2, []),
    ("no bundle", lambda _: b"a letter\n" * 1000, 2, []),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("name", "change", "code", "says"), BUNDLES, ids=[row[0] for row in BUNDLES])
def test_bundles(
    invoke: Toolchain,
    files: Path,
    bundles: dict[str, Bundle],
    name: str,
    change: Callable[[bytes], bytes],
    code: int,
    says: list[str],
) -> None:
    bad = files / f"{name}.bundle"
    bad.write_bytes(change(bundles["local"].path.read_bytes()))
    for verb in ("verify", "bench"):
        refused(invoke, files, code, [bad.name, *says], verb, bad.name, "--board", "local")
    data = [f"--input={INPUT}=good.npy", "-o", "out.npz"]
    refused(invoke, files, code, [bad.name, *says], "run", bad.name, "--board", "local", *data)


@pytest.mark.usefixtures("state")
def test_bundles_for_other_boards(invoke: Toolchain, files: Path, bundles: dict[str, Bundle]) -> None:
    from toolchain.bundles.write import write_bundle

    other, local = bundles["rk3399"], bundles["local"]
    refused(invoke, files, 2, ["aarch64", "--board local"], "verify", other.path, "--board", "local")
    refused(invoke, files, 2, ["nosuch.bundle"], "verify", "nosuch.bundle", "--board", "local")
    refused(invoke, files, 2, ["rk3399", "emulate start"], "verify", other.path, "--board", "rk3399")
    write_bundle(
        files / "demanding.bundle",
        local.manifest.model_copy(update={"requires": ("avx9000",)}),
        local.library,
        local.sample,
        local.expected,
    )
    refused(invoke, files, 2, ["avx9000", "local"], "verify", "demanding.bundle", "--board", "local")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_port_in_use(toolchain: Toolchain, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused(toolchain, folder, 1, [str(port)], "lab", "start", "--board", "local", "--port", port)
    assert toolchain("lab", "status", "--json").document["tracker"] is None


def test_a_full_disk(files: Path) -> None:
    """A limit on the size of files stands for the disk: the same error of write(2), for root as well."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))

    before = [path for path in files.rglob("*") if path.is_file()]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "toolchain",
            "model",
            "export",
            "squeezenet_v1.1",
            "-o",
            "out/mine.onnx",
            "--json",
        ],
        cwd=files,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert "cannot write out/mine.onnx: File too large" in error["message"] and error["hint"]
    assert [path for path in files.rglob("*") if path.is_file()] == before

"""Networks on OpenCL devices: PoCL, which computes on this host's CPU, and drivers that are broken."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.opencl.pocl import NAMES
from tests.runtime import networks, opencl_network
from tests.runtime.conftest import Case, Edge, address_of, edge_for
from tests.runtime.stub_drivers import stub

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled, and PoCL compiles kernels

FAILED, REQUIRES = 1, 5


@dataclass(frozen=True)
class Device:
    """edge-rt as a board's command line starts it: without HOME, and with what a test sets."""

    program: str
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)  # of this program

    def __call__(self, *arguments: str | Path, **environment: str | Path) -> tuple[int, Any]:
        variables = {name: str(value) for name, value in environment.items()}
        done = subprocess.run(
            [self.program, *map(str, arguments)],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", **self.settings, **variables},
            capture_output=True,
            timeout=120,
        )
        assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout)

    def arguments(self, state: Path, library: str = "network.so") -> list[str | Path]:
        """Return what `run` and `bench` take for the network `dense`."""
        inputs = ("--input", self.folder / "x.npy", "--input", self.folder / "bias.npy")
        return [self.folder / library, *inputs, "--device", "opencl", "--state", state]


PROGRAMS = ["plain", pytest.param("sanitized", marks=pytest.mark.full)]


@pytest.fixture(scope="module", params=PROGRAMS)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    return device_for(request, tmp_path_factory.mktemp("opencl"))


def device_for(request: pytest.FixtureRequest, folder: Path) -> Device:
    """Return it with one of `PROGRAMS`."""
    if request.param == "plain":
        native: Edge = request.getfixturevalue("native")
        return device_in(folder, native.command[-1])
    from tests.fuzz import sanitized

    return device_in(folder, str(sanitized.build()), sanitized.OPTIONS)


def device_in(folder: Path, program: str, settings: Mapping[str, str] | None = None) -> Device:
    """Return it for a folder in which the network and its inputs are written."""
    generator = np.random.default_rng(0)
    np.save(folder / "x.npy", generator.standard_normal((4, 8), dtype="float32"))
    np.save(folder / "bias.npy", generator.standard_normal(16, dtype="float32"))
    (folder / "network.so").write_bytes(opencl_network.network())
    return Device(program, folder, settings or {})


@pytest.fixture(scope="module")
def used(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state folder in which the network has run."""
    state = tmp_path_factory.mktemp("state") / "state"
    check_run(device, state)
    return state


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub(tmp_path_factory.mktemp("stub") / "driver")


def check_run(device: Device, state: Path, **environment: str | Path) -> None:
    out = device.folder / "o.npz"
    code, answer = device("run", *device.arguments(state), "--output", out, **environment)
    assert code == 0, answer
    expected = networks.dense(np.load(device.folder / "x.npy"), np.load(device.folder / "bias.npy"))
    with np.load(out) as outputs:
        for output, reference in zip(outputs.values(), expected, strict=True):
            np.testing.assert_allclose(output, reference, rtol=1e-5, atol=1e-6)


def opencl(document: Any) -> Any:
    (kind_facts,) = [kind for kind in document["devices"] if kind["kind"] == "opencl"]
    return kind_facts


def kept(state: Path) -> list[Path]:
    return sorted((state / "devices" / "opencl").glob("*.bin"))


def shared_cache() -> dict[Path, int]:
    """Return what PoCL keeps for programs without a home folder, with its times: others may leave some."""
    paths = (Path("/tmp/pocl"), *Path("/tmp/pocl").rglob("*"))
    return {path: path.stat().st_mtime_ns for path in paths if path.exists()}


def test_drivers_are_loaded_only_for_devices(device: Device, tmp_path: Path) -> None:
    before = shared_cache()
    _, plain = device("info", "--state", tmp_path / "state")
    others = ("vta", "lazy", "npu")  # the last two in edge-rt with sanitizers alone
    assert [kind["kind"] for kind in plain["devices"] if kind["kind"] not in others] == ["cpu"]
    assert not (tmp_path / "state").exists()
    code, answer = device("info", "--devices", "--state", tmp_path / "state")
    opencl_facts = opencl(answer)
    (facts,) = opencl_facts["details"]
    assert (code, opencl_facts["problem"], opencl_facts["names"]) == (0, None, [facts["name"]])
    assert "Portable Computing Language" in facts["platform"] and facts["type"] == "cpu"
    assert facts["max_work_group"] >= 256 and facts["local_bytes"] >= 32768 and facts["float_lanes"] >= 4
    assert shared_cache() == before and (tmp_path / "state" / "devices" / "pocl").is_dir()


def test_a_network_computes_on_the_device(device: Device, used: Path) -> None:
    names = [path.name for path in kept(used)]
    assert len(names) == 5, "one for each kernel"
    check_run(device, used)
    assert [path.name for path in kept(used)] == names


def test_bench_reports_copies_apart(device: Device, used: Path) -> None:
    code, answer = device("bench", *device.arguments(used), "--repeat", "3", "--profile")
    assert code == 0 and all(ms > 0 for ms in answer["times_ms"])
    assert answer["copies_ms"]["to_device"] > 0 and answer["copies_ms"]["from_device"] > 0
    assert {"matmul", "relu", "multiply", "add"} <= {operator["name"] for operator in answer["operators"]}


def test_function_with_a_workspace(device: Device, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal(1024, "float32")
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "workspace.so").write_bytes(opencl_network.workspace())
    arguments = (tmp_path / "workspace.so", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz")
    code, answer = device("run", *arguments, "--device", "opencl", "--state", tmp_path / "state")
    assert code == 0, answer
    (output,) = np.load(tmp_path / "y.npz").values()
    np.testing.assert_array_equal(output, np.tile((x + 1) * 2, 2))


def test_cpu_has_no_copies(native: Edge, dense: Case) -> None:
    _, answer = native("bench", *dense.arguments, "--repeat", "1")
    assert answer["copies_ms"] is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another driver's", "a folder"])
def test_damaged_cache_is_recompiled(device: Device, used: Path, tmp_path: Path, damage: str) -> None:
    state = tmp_path / "state"
    subprocess.run(["cp", "-r", used, state], check=True)
    complete = {path: path.read_bytes() for path in kept(state)}
    for path, content in complete.items():
        if damage == "a folder":
            path.unlink()
            (path / "in").mkdir(parents=True)
        else:
            path.write_bytes(
                {
                    "cut": content[:-9],
                    "flipped": content[:-20] + bytes([content[-20] ^ 1]) + content[-19:],
                    "empty": b"",
                    "another driver's": sealed(content),
                }[damage]
            )
    check_run(device, state)
    if damage != "a folder":  # nothing can take its place
        assert all(b"poclbin" in path.read_bytes() for path in complete)


def sealed(content: bytes) -> bytes:
    """Return a whole file for the same key whose binary no driver knows."""
    at = content.index(b"\n") + 1
    (key,) = struct.unpack_from("<Q", content, at)
    binary = b"no binary of any driver" * 4
    head = content[: at + 8 + key] + struct.pack("<Q", len(binary)) + binary
    digest = 0xCBF29CE484222325
    for byte in head:
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    return head + struct.pack("<Q", digest)


def test_missing_driver(device: Device, tmp_path: Path) -> None:
    # The loader is there, and knows of no driver.
    code, answer = device("info", "--devices", "--state", tmp_path / "state", OCL_ICD_VENDORS=tmp_path)
    problem = opencl(answer)["problem"]
    assert code == 0 and opencl(answer)["names"] == []
    assert "libOpenCL.so.1 knows no device that compiles (CL_PLATFORM_NOT_FOUND_KHR (-1001))" in problem
    assert "libmali.so is not here" in problem
    code, answer = device("bench", *device.arguments(tmp_path / "state"), OCL_ICD_VENDORS=tmp_path)
    assert (code, answer["error"]["kind"], answer["error"]["missing"]) == (REQUIRES, "device", ["opencl"])
    message = answer["error"]["message"]
    assert message.endswith("; here are: cpu, vta:sim") and problem in message


def test_missing_opencl_library_names_all_candidates(tmp_path: Path) -> None:
    # For qemu there is a sysroot without any.
    code, answer = edge_for("aarch64")("info", "--devices", "--state", tmp_path / "state")
    names = ("libOpenCL.so.1", "libOpenCL.so", "libmali.so.1", "libmali.so")
    assert code == 0
    assert opencl(answer)["problem"] == "; ".join(f"{name} is not here" for name in names)


def test_driver_without_a_function_is_named(device: Device, tmp_path: Path) -> None:
    folder = stub(tmp_path / "driver", "-DSTUB_LACKS")
    _, answer = device("info", "--devices", "--state", tmp_path / "state", LD_LIBRARY_PATH=folder)
    assert "libOpenCL.so.1 has no clSetKernelArg" in opencl(answer)["problem"]


def test_invalid_opencl_library(device: Device, tmp_path: Path) -> None:
    (tmp_path / "libOpenCL.so.1").write_text("no ELF file")
    _, answer = device("info", "--devices", "--state", tmp_path / "state", LD_LIBRARY_PATH=tmp_path)
    assert "libOpenCL.so.1: " in opencl(answer)["problem"]


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("hang", "its driver did not answer within 5.000000 s"),
        ("crash", "its driver ended the process that asked it: Segmentation fault"),
        ("exit", "its driver ended the process that asked it"),
    ],
)
def test_crashing_driver_affects_its_devices_only(
    device: Device, broken: Path, tmp_path: Path, harm: str, why: str
) -> None:
    environment = {"LD_LIBRARY_PATH": broken, "STUB_HARM": harm, "STUB_MARK": tmp_path / "opened"}
    state = ("--state", tmp_path / "state")
    begin = time.monotonic()
    code, answer = device("info", "--devices", "--timeout", "5", *state, **environment)
    assert code == 0 and opencl(answer) == {"kind": "opencl", "names": [], "problem": why}
    assert answer["devices"][0]["names"], "the CPU is there as before"
    assert time.monotonic() - begin < 30 and (tmp_path / "opened").exists()


def test_a_network_for_the_cpu_opens_no_driver(
    device: Device, dense: Case, broken: Path, tmp_path: Path
) -> None:
    environment = {"LD_LIBRARY_PATH": broken, "STUB_HARM": "hang", "STUB_MARK": tmp_path / "opened"}
    for verb in (["info"], ["bench", *dense.arguments], ["bench", *dense.arguments, "--device", "cpu"]):
        code, answer = device(*verb, "--state", tmp_path / "state", **environment)
        assert code == 0, answer
    code, answer = device("bench", *dense.arguments, "--device", "vta", **environment)
    assert code == REQUIRES, answer
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda code: code.replace(b"cl", b"xc", 1), 'code in the format "xc"; only OpenCL C'),
        (lambda code: b"\xff" * 8 + code[8:], "OpenCL code is damaged; was it all copied?"),
        (lambda code: code[:10] + b"\xff\0\0\0\0\0\0\0" + code[18:], "OpenCL code is damaged"),
        (lambda code: code.replace(b"blockIdx.x", b"blockIdy.x", 1), 'wants to be begun with "blockIdy.x"'),
        (lambda code: code.replace(b"// Function: ", b"// function: ", 1), "the library has no source of k"),
    ],
)
def test_refuses_damaged_code_when_loading(device: Device, tmp_path: Path, change: Any, says: str) -> None:
    (device.folder / "bad.so").write_bytes(opencl_network.changed(opencl_network.network(), change))
    code, answer = device("bench", *device.arguments(tmp_path / "state", "bad.so"))
    assert (code, answer["error"]["kind"]) == (FAILED, "load")
    assert says in answer["error"]["message"]


def test_compiler_log_is_reported(device: Device, tmp_path: Path) -> None:
    bad = opencl_network.changed(
        opencl_network.network(), lambda code: code.replace(b"__kernel", b"__kernal")
    )
    (device.folder / "bad.so").write_bytes(bad)
    code, answer = device("bench", *device.arguments(tmp_path / "state", "bad.so"))
    message = answer["error"]["message"]
    assert code == FAILED and "clBuildProgram says CL_BUILD_PROGRAM_FAILURE (-11): kernel " in message
    assert "its log:\n" in message and "__kernal" in message and answer["error"]["cause"] == "build"
    assert any(f"; device {name}" in message for name in NAMES) and re.search(r"driver \d", message)


@pytest.fixture
def remote(native: Edge, tracker: int, tmp_path: Path) -> Iterator[Any]:
    from tvm import rpc

    with native.serving(tmp_path / "serving", tracker):
        yield rpc.connect_tracker("127.0.0.1", tracker).request("board", session_timeout=120)


def loaded(remote: Any, folder: Path, library: bytes) -> Any:
    (folder / "lib.so").write_bytes(library)
    remote.upload(folder / "lib.so")
    return remote.load_module("lib.so")


def test_a_session_computes_on_the_device(remote: Any, tmp_path: Path) -> None:
    import tvm

    card = remote.device("opencl")
    assert card.exist and not remote.device("opencl", 1).exist
    assert card.device_name.startswith(NAMES) and card.warp_size == 1 and card.api_version == 300
    assert card.max_threads_per_block >= 256 and len(card.max_thread_dimensions) == 3
    facts = json.loads(remote.get_function("edge.devices")())
    assert opencl({"devices": facts})["names"] == [card.device_name]

    x = np.arange(64, dtype="float32")
    a, b = tvm.runtime.tensor(x, card), tvm.runtime.empty((64,), "float32", card)
    library = loaded(remote, tmp_path, opencl_network.plus_one())
    library["main"](a, b)
    np.testing.assert_array_equal(b.numpy(), x + 1)
    b.copyto(a)
    np.testing.assert_array_equal(a.numpy(), x + 1)
    timed = library.time_evaluator("main", card, number=3, repeat=2)(a, b)
    assert min(timed.results) > 0


def test_exceeded_limits_are_named(remote: Any, tmp_path: Path) -> None:
    import tvm

    card, most = remote.device("opencl"), opencl_network.MOST_ITEMS
    library = loaded(remote, tmp_path, opencl_network.large_group())
    a, b = (tvm.runtime.empty((most,), "float32", card) for _ in range(2))
    with pytest.raises(tvm.error.RPCError, match=r"1 x 1 x 1 groups of 1048576 x 1 x 1 work items: the dev"):
        library["main"](a, b)
    with pytest.raises(
        tvm.error.RPCError, match=r"clCreateBuffer says CL_INVALID_BUFFER_SIZE \(-61\): 8388608"
    ):
        tvm.runtime.empty((2**41,), "float32", card)
    host = tvm.runtime.tensor(np.zeros(most, "float32"), remote.cpu())
    with pytest.raises(tvm.error.RPCError, match=r"device_type|lies elsewhere"):
        library["main"](host, host)
    assert tvm.runtime.tensor(np.float32([7]), card).numpy() == [7], "the session goes on"


def test_device_handle_is_not_an_address(native: Edge, tracker: int, tmp_path: Path) -> None:
    from tests.fuzz import rpc_frames as rpc
    from tests.fuzz.rpc_frames import Code, Type
    from tests.runtime.test_fence import F32, Server

    opencl_type, most = rpc.OPENCL, 4096
    where, size = struct.pack("<i", Type.DEVICE) + opencl_type, struct.pack("<Q", most)
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        native.serving(tmp_path / "serving", tracker, stderr=stderr) as server,
    ):
        open_session = Server(tracker, address_of(server), tmp_path / "stderr").session
        for wrong in (
            lambda at: rpc.frame(Code.COPY_FROM, rpc.tensor(at, most // 4), size),  # the CPU's memory
            lambda at: rpc.frame(Code.COPY_FROM, rpc.tensor(at + 8, most // 4 - 2, device=opencl_type), size),
            lambda at: rpc.frame(
                Code.COPY_FROM, rpc.tensor(at, most // 4 + 1, device=opencl_type), struct.pack("<Q", most + 4)
            ),
        ):
            with open_session() as talk:
                ask = rpc.frame(Code.ALLOC, rpc.values(where, rpc.number(most), rpc.number(64), F32))
                handles = [talk.pointer(ask) for _ in range(3)]
                for i, at in enumerate(handles):
                    tensor = rpc.tensor(at, most // 4, device=opencl_type)
                    answer = talk.say(rpc.frame(Code.COPY_TO, tensor, size, bytes([i]) * most))
                    assert answer[:4] == struct.pack("<i", Code.RETURN), answer
                for i, at in enumerate(handles):
                    tensor = rpc.tensor(at, most // 4, device=opencl_type)
                    assert talk.say(rpc.frame(Code.COPY_FROM, tensor, size))[4:] == bytes([i]) * most
                assert re.search("handed out|a copy of", talk.refusal(wrong(handles[0])))

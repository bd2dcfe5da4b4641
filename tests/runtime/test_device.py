"""What networks run on: the CPU, and a device that is nothing but a file of its own (lazy_device.cc)."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime import lazy_network
from tests.runtime.conftest import Case, Edge, address_of

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

USAGE, REQUIRES = 2, 5
WORK_MS = 20  # of each operator of the lazy device


def test_info_lists_the_cpu(edge: Edge) -> None:
    code, facts = edge("info")
    cpu = facts["devices"][0]
    assert (code, cpu["kind"], cpu["problem"]) == (0, "cpu", None)
    assert cpu["names"] == [", ".join(dict.fromkeys(cpu_facts["core"] for cpu_facts in facts["cpus"]))]


@pytest.mark.parametrize("name", ["", "cpu", "cpu:0"])
def test_cpu_can_be_named(native: Edge, dense: Case, tmp_path: Path, name: str) -> None:
    code, answer = native("run", *dense.arguments, "--device", name, "--output", tmp_path / "o.npz")
    assert code == 0, answer


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("metal", "this edge-rt knows no such kind"),
        ("npu:0", "this edge-rt knows no such kind"),
        ("cpu:1", "the last of that kind is cpu:0"),
        ("CPU", "this edge-rt knows no such kind"),
    ],
)
def test_missing_device_is_refused_before_loading(native: Edge, tmp_path: Path, name: str, why: str) -> None:
    for verb in (["run", "--output", tmp_path / "o.npz"], ["bench"]):
        code, answer = native(*verb, tmp_path / "no.so", "--device", name, "--state", tmp_path)
        assert (code, answer["error"]["kind"]) == (REQUIRES, "device")
        assert answer["error"]["message"] == f"there is no device {name} here: {why}; here are: cpu, vta:sim"
        assert (answer["error"]["missing"], answer["error"]["devices"]) == ([name], ["cpu", "vta:sim"])


@pytest.mark.parametrize("name", ["cpu:", ":", "cpu:x", "cpu:-1", "cpu:0:0", "cpu:99999", "cpu: 0"])
def test_refuses_invalid_device_names(native: Edge, tmp_path: Path, name: str) -> None:
    code, answer = native("bench", tmp_path / "no.so", "--device", name, "--state", tmp_path)
    assert (code, answer["error"]["kind"]) == (USAGE, "usage")
    assert f'the device "{name}": give a kind' in answer["error"]["message"]


def test_missing_functions_are_refused_before_loading(native: Edge, tmp_path: Path) -> None:
    functions = ("--functions", "runtime.RPCTimeEvaluator,edge.npu.run,edge.vta.run,edge.no")
    code, answer = native("bench", tmp_path / "no.so", *functions, "--state", tmp_path)
    assert (code, answer["error"]["kind"]) == (REQUIRES, "function")
    assert answer["error"]["missing"] == ["edge.npu.run", "edge.no"]
    assert "edge.npu.run, edge.no" in answer["error"]["message"]


class Lazy:
    """The sanitized edge-rt, in which the lazy device is compiled, and a network for it."""

    def __init__(self, program: Path, folder: Path) -> None:
        from tests.fuzz.sanitized import OPTIONS

        self.environment = {"PATH": os.environ["PATH"], **OPTIONS}
        self.program = program
        (folder / "net.so").write_bytes(lazy_network.library())
        self.x = np.float32([1, 2, 3, -4])
        np.save(folder / "x.npy", self.x)
        self.folder = folder
        inputs = ("--input", folder / "x.npy", "--state", folder / "state")
        self.arguments = [str(argument) for argument in (folder / "net.so", *inputs)]

    def __call__(self, *arguments: str, names: str | None = "first,second") -> tuple[int, Any, str]:
        environment = self.environment | ({} if names is None else {"EDGE_RT_LAZY": names})
        command = [self.program, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def lazy(tmp_path_factory: pytest.TempPathFactory) -> Lazy:
    from tests.fuzz import sanitized

    return Lazy(sanitized.build(), tmp_path_factory.mktemp("lazy"))


@pytest.mark.full
def test_info_lists_the_drivers_device_names(lazy: Lazy) -> None:
    _, facts, _ = lazy("info")
    assert {"kind": "lazy", "names": ["first", "second"], "problem": None} in facts["devices"]
    _, facts, _ = lazy("info", names=None)
    assert {"kind": "lazy", "names": [], "problem": "the environment names none"} in facts["devices"]


@pytest.mark.full
def test_howto_device_compiles_and_prints_the_documented_output(lazy: Lazy) -> None:
    from tests.fuzz.sanitized import HOWTO

    page = " ".join(HOWTO.read_text().split())
    _, facts, _ = lazy("info")
    (npu,) = [device for device in facts["devices"] if device["kind"] == "npu"]
    assert json.dumps(npu) in page
    _, answer, _ = lazy("bench", "any.so", "--device", "npu", names=None)
    assert answer["error"]["message"] in page


@pytest.mark.full
def test_absent_device_lists_the_present_ones(lazy: Lazy) -> None:
    for name, names, words in (
        ("lazy", None, "the environment names none"),
        ("lazy:2", "a,b", "the last of that kind is lazy:1"),
        ("eager", "a", "this edge-rt knows no such kind"),
    ):
        code, answer, _ = lazy("bench", *lazy.arguments, "--device", name, names=names)
        assert (code, answer["error"]["kind"]) == (REQUIRES, "device")
        message = answer["error"]["message"]
        assert message.startswith(f"there is no device {name} here: {words}; here are: cpu")
        present = [f"lazy:{i}" if i else "lazy" for i in range(len(names.split(",")) if names else 0)]
        assert set(answer["error"]["devices"]) == {"cpu", "vta:sim", *present}


@pytest.mark.full
@pytest.mark.parametrize("name", ["lazy", "lazy:0", "lazy:1"])
def test_inputs_and_outputs_are_copied_from_host_memory(lazy: Lazy, name: str) -> None:
    out = lazy.folder / "o.npz"
    options = ("--device", name, "--functions", lazy_network.FUNCTION, "--output", str(out))
    code, answer, _ = lazy("run", *lazy.arguments, *options)
    assert code == 0, answer
    with np.load(out) as outputs:
        for output, expected in zip(outputs.values(), lazy_network.expected(lazy.x), strict=True):
            np.testing.assert_array_equal(output, expected)


@pytest.mark.full
def test_timing_synchronises_the_device(lazy: Lazy) -> None:
    options = ("--repeat", "2", "--number", "2", "--warmup", "0", "--profile", "--device", "lazy")
    code, answer, _ = lazy("bench", *lazy.arguments, *options)
    assert code == 0, answer
    assert all(ms >= 2 * WORK_MS for ms in answer["times_ms"]), "two operators in each run"
    (operator,) = answer["operators"]
    assert (operator["name"], operator["calls"]) == (lazy_network.FUNCTION, 2)
    assert operator["ms"] >= 2 * WORK_MS


@pytest.mark.full
def test_device_code_does_not_read_host_memory(lazy: Lazy) -> None:
    code, answer, _ = lazy("bench", *lazy.arguments)
    assert code == 1 and "a tensor of the host's" in answer["error"]["message"]


@contextlib.contextmanager
def serving(lazy: Lazy, tracker: int) -> Iterator[Any]:
    words = [f"{name}={value}" for name, value in (lazy.environment | {"EDGE_RT_LAZY": "one"}).items()]
    edge = Edge("x86_64", ("env", *words, str(lazy.program)))
    with (
        (lazy.folder / "stderr").open("wb") as stderr,
        edge.serving(lazy.folder / "serving", tracker, stderr=stderr) as server,
    ):
        yield server
    assert "Sanitizer" not in (lazy.folder / "stderr").read_text()


@pytest.mark.full
def test_a_session_computes_on_the_device(lazy: Lazy, tracker: int) -> None:
    import tvm
    from tvm import rpc

    with serving(lazy, tracker):
        remote = rpc.connect_tracker("127.0.0.1", tracker).request("board", session_timeout=30)
        facts = json.loads(remote.get_function("edge.info")())
        assert [entry["names"] for entry in facts["devices"] if entry["kind"] == "lazy"] == [["one"]]
        device = remote.device("ext_dev", 0)
        assert device.exist and not remote.device("ext_dev", 1).exist
        x, out = tvm.runtime.tensor(lazy.x, device), tvm.runtime.empty((4,), "float32", device)
        np.testing.assert_array_equal(x.numpy(), lazy.x)
        remote.get_function(lazy_network.FUNCTION)(x, x, out)
        np.testing.assert_array_equal(out.numpy(), lazy.x + lazy.x)

        remote.upload(lazy.folder / "net.so")
        machine = tvm.relax.VirtualMachine(remote.load_module("net.so"), [device, remote.cpu()])
        machine.set_input("main", x)
        timed = machine.time_evaluator("invoke_stateful", device, number=2)("main")
        assert timed.mean * 1e3 >= 2 * WORK_MS
        with pytest.raises(tvm.error.RPCError, match="a tensor of the host's"):
            host = tvm.runtime.tensor(lazy.x, remote.cpu())
            remote.get_function(lazy_network.FUNCTION)(host, host, host)


@pytest.mark.full
def test_device_handle_is_not_a_host_address(lazy: Lazy, tracker: int) -> None:
    from tests.fuzz import rpc_frames as rpc
    from tests.fuzz.rpc_frames import Code, Type
    from tests.runtime.test_fence import F32, Server

    lazy_type, size = rpc.LAZY, struct.pack("<Q", 8)
    with (
        serving(lazy, tracker) as server,
        Server(tracker, address_of(server), lazy.folder / "stderr").session() as talk,
    ):
        device = struct.pack("<i", Type.DEVICE) + lazy_type
        at = talk.pointer(rpc.frame(Code.ALLOC, rpc.values(device, rpc.number(8), rpc.number(64), F32)))
        assert talk.say(rpc.frame(Code.COPY_TO, rpc.tensor(at, 2, device=lazy_type), size, b"12345678"))
        back = talk.say(rpc.frame(Code.COPY_FROM, rpc.tensor(at, 2, device=lazy_type), size))
        assert back.endswith(b"12345678")
        assert "handed out" in talk.refusal(rpc.frame(Code.COPY_FROM, rpc.tensor(at, 2), size))

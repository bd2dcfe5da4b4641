"""edge.vta.run: networks whose programs the simulation runs, and programs that are refused."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime import vta_network
from tests.runtime.conftest import Edge
from tests.vta.regions import case
from toolchain import runtime
from toolchain.vta.compiling.blob import HEADER, checked

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

REQUIRES = 5
SIM = ("--device", "vta:sim", "--functions", vta_network.FUNCTION)


def x_file(folder: Path, seed: int = 0) -> Path:
    file = folder / "x.npy"
    np.save(file, case(seed).x.reshape(vta_network.VALUE))
    return file


def placed(folder: Path, *blobs: bytes, arch: str = "x86_64", seed: int = 0) -> tuple[str, ...]:
    """Put a network with these programs into a folder; return what edge-rt is told of it."""
    (folder / "net.so").write_bytes(vta_network.library(blobs, arch))
    return str(folder / "net.so"), "--input", str(x_file(folder, seed)), "--state", str(folder / "state")


def output(folder: Path) -> Any:
    with np.load(folder / "o.npz") as outputs:
        return outputs["output_0"].reshape(case().y.shape)


def test_simulator_is_listed_beside_missing_hardware(edge: Edge) -> None:
    _, facts = edge("info")
    (vta,) = (device for device in facts["devices"] if device["kind"] == "vta")
    assert vta["names"] == ["sim"] and "no Zynq-7000" in vta["problem"]


def test_simulation_matches_numpy(edge: Edge, tmp_path: Path) -> None:
    arguments = placed(tmp_path, case().blob, arch=edge.arch)
    code, answer = edge("run", *arguments, *SIM, "--output", tmp_path / "o.npz")
    assert (code, answer.get("device")) == (0, "vta:sim"), answer
    np.testing.assert_array_equal(output(tmp_path), case().y)


@pytest.mark.parametrize("name", ["vta", "vta:0", "vta:pynq"])
def test_simulator_is_never_taken_for_hardware(native: Edge, tmp_path: Path, name: str) -> None:
    code, answer = native("bench", *placed(tmp_path, case().blob), "--device", name)
    assert (code, answer["error"]["kind"], answer["error"]["missing"]) == (REQUIRES, "device", [name])
    assert "no Zynq-7000" in answer["error"]["message"]
    assert answer["error"]["devices"] == ["cpu", "vta:sim"]


def test_default_device_is_the_hardware(native: Edge, tmp_path: Path) -> None:
    code, answer = native("bench", *placed(tmp_path, case().blob))
    assert code == REQUIRES and "vta:sim" in answer["error"]["message"]


def test_bench_reports_the_models_time_apart(native: Edge, tmp_path: Path) -> None:
    once, twice = case().blob, case(5).blob
    benches = []
    for blobs in ([once], [twice], [once, twice]):
        code, answer = native("bench", *placed(tmp_path, *blobs), *SIM, "--repeat", "2", "--warmup", "3")
        assert (code, answer.get("device"), len(answer["times_ms"])) == (0, "vta:sim", 2), answer
        benches.append(answer["modelled"])
    assert [bench["programs"] for bench in benches] == [1, 1, 2]
    assert benches[2]["cycles"] == benches[0]["cycles"] + benches[1]["cycles"] > 0
    for bench in benches:
        assert (bench["mhz"], bench["version"]) == (100, 1)
        assert bench["ms"] == pytest.approx(bench["cycles"] / 1e5)


def test_model_matches_the_vta_command(native: Edge, tmp_path: Path) -> None:
    from toolchain.vta.design import SAMPLES
    from toolchain.vta.machine.requests import EncodedProgram, SimOptions
    from toolchain.vta.machine.simulator import Simulator

    blob = case().blob
    numbers = HEADER.unpack_from(blob)
    size, image_at, begin, at, count = numbers[20:25]
    memory = bytes(image_at) + blob[begin:]
    program = EncodedProgram(
        SAMPLES["pynq"], memory[at : at + 16 * count], memory + bytes(size - len(memory)), 0
    )
    with Simulator() as simulator:
        cycles = simulator.run(program, SimOptions(computes=False)).model.cycles
    _, answer = native("bench", *placed(tmp_path, blob), *SIM, "--repeat", "1")
    assert answer["modelled"]["cycles"] == cycles


def test_networks_without_programs_have_no_model(native: Edge, dense: Any) -> None:
    _, answer = native("bench", *dense.arguments, "--repeat", "1")
    assert (answer["modelled"], answer["device"]) == (None, "cpu")


def refusal(native: Edge, folder: Path, blob: bytes) -> str:
    """Return why a program that is the network's input is refused."""
    np.save(folder / "p.npy", np.frombuffer(blob, np.uint8))
    arguments = [*placed(folder), "--input", str(folder / "p.npy")]
    code, answer = native("run", *arguments, *SIM, "--output", folder / "o.npz")
    assert (code, answer["error"]["kind"]) == (1, "run"), answer
    return str(answer["error"]["message"])


def test_program_passed_as_an_input(native: Edge, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.frombuffer(case().blob, np.uint8))
    arguments = [*placed(tmp_path), "--input", str(tmp_path / "p.npy")]
    code, answer = native("run", *arguments, *SIM, "--output", tmp_path / "o.npz")
    assert code == 0, answer
    np.testing.assert_array_equal(output(tmp_path), case().y)


def test_bad_program_is_refused_with_a_hint(native: Edge, tmp_path: Path) -> None:
    blob = case().blob
    for bad, words in {
        blob[:-4096]: "it was cut",
        blob + bytes(4096): "it was padded",
        blob[:9000] + bytes([blob[9000] ^ 8]) + blob[9001:]: "its checksum is wrong",
        np.arange(200, dtype=np.uint8).tobytes(): "do not begin with EVTA",
        checked(blob[:12] + struct.pack("<I", 7) + blob[16:]): "isa_rev is 7",
    }.items():
        message = refusal(native, tmp_path, bad)
        assert words in message and "the program is refused" in message and "toolchain build" in message


def test_refuses_values_of_another_shape(native: Edge, tmp_path: Path) -> None:
    shape = (1, 2, 8, 16, 8)
    (tmp_path / "net.so").write_bytes(vta_network.library((case().blob,), shape=shape))
    np.save(tmp_path / "x.npy", np.zeros(shape, np.int8))
    arguments = (tmp_path / "net.so", "--input", tmp_path / "x.npy", "--state", tmp_path)
    code, answer = native("run", *arguments, *SIM, "--output", tmp_path / "o.npz")
    assert code == 1
    assert (
        "input 0 is int8[1, 2, 8, 16, 8] where the program has int8[1, 2, 8, 8, 1, 16]"
        in (answer["error"]["message"])
    )


CHILD = """
import ctypes, sys, threading
class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("cluster", ctypes.c_char_p), ("requires", ctypes.c_char_p),
                ("threads", ctypes.c_int), ("spin_us", ctypes.c_int), ("device", ctypes.c_char_p),
                ("folder", ctypes.c_char_p)]
class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_char_p), ("ndim", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
edge = ctypes.CDLL(sys.argv[1])
edge.edge_open.restype = ctypes.c_void_p
edge.edge_last_error.restype = ctypes.c_char_p
options = Options(ctypes.sizeof(Options), threads=1, device=b"vta:sim")
x, y = open(sys.argv[3], "rb").read(), open(sys.argv[4], "rb").read()
shape = (ctypes.c_int64 * 5)(1, 2, 8, 8, 16)
def opened():
    library = edge.edge_open(sys.argv[2].encode(), ctypes.byref(options))
    assert library, edge.edge_last_error()
    return ctypes.c_void_p(library)
def computed(library):
    given = Tensor(b"int8", 5, shape, ctypes.cast(ctypes.c_char_p(x), ctypes.c_void_p), len(x))
    got = Tensor()
    assert edge.edge_set_input(library, 0, ctypes.byref(given)) == 0, edge.edge_last_error()
    assert edge.edge_run(library) == 0, edge.edge_last_error()
    assert edge.edge_output(library, 0, ctypes.byref(got)) == 0, edge.edge_last_error()
    assert ctypes.string_at(got.data, got.bytes) == y
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
"""

CYCLES = """
for cycle in range(1000):
    library = opened()
    computed(library)
    computed(library)
    edge.edge_close(library)
    if cycle == 99:
        before = resident()
print(resident() - before)
"""

THREADS = """
def work():
    for _ in range(5):
        library = opened()
        for _ in range(20):
            computed(library)
        edge.edge_close(library)
    done.append(True)
done = []
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(done))
"""


def child(folder: Path, text: str) -> int:
    """Return what a program of one's own prints that uses libedge.so."""
    expected = case()
    (folder / "net.so").write_bytes(vta_network.library((expected.blob,)))
    (folder / "x").write_bytes(expected.x.tobytes())
    (folder / "y").write_bytes(expected.y.tobytes())
    words = [runtime.ensure_runtime("x86_64").library, *(folder / name for name in ("net.so", "x", "y"))]
    command = [sys.executable, "-c", CHILD + text, *words]
    done = subprocess.run(command, capture_output=True, timeout=300, text=True)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout))


def test_closed_library_leaves_nothing(tmp_path: Path) -> None:
    memory = HEADER.unpack_from(case().blob)[20]
    assert child(tmp_path, CYCLES) < 100 * memory  # of 900


def test_threads_have_libraries_of_their_own(tmp_path: Path) -> None:
    assert child(tmp_path, THREADS) == 4


def test_a_session_says_which_device(native: Edge, tracker: int, tmp_path: Path) -> None:
    import tvm
    from tvm import rpc

    expected = case()
    with native.serving(tmp_path / "serving", tracker):
        remote = rpc.connect_tracker("127.0.0.1", tracker).request("board", session_timeout=60)
        (tmp_path / "net.so").write_bytes(vta_network.library((expected.blob,)))
        remote.upload(tmp_path / "net.so")
        machine = tvm.relax.VirtualMachine(remote.load_module("net.so"), remote.cpu())
        x = tvm.runtime.tensor(expected.x.reshape(vta_network.VALUE), remote.cpu())
        machine.set_input("main", x)
        with pytest.raises(tvm.error.RPCError, match="vta:sim"):
            machine.invoke_stateful("main")
        with pytest.raises(tvm.error.RPCError, match="no device vta:pynq"):
            remote.get_function("edge.vta.use")("pynq")
        remote.get_function("edge.vta.use")("sim")
        machine.invoke_stateful("main")
        y = machine.get_outputs("main").numpy().reshape(expected.y.shape)
        np.testing.assert_array_equal(y, expected.y)


@contextmanager
def session(edge: Edge, tracker: int, folder: Path, *programs: bytes) -> Iterator[Any]:
    """Yield a session of a server that was sent programs, `0.bin` and so on."""
    from tvm import rpc

    with edge.serving(folder / "serving", tracker):
        remote = rpc.connect_tracker("127.0.0.1", tracker).request("board", session_timeout=60)
        for number, blob in enumerate(programs):
            (folder / f"{number}.bin").write_bytes(blob)
            remote.upload(folder / f"{number}.bin")
        yield remote
        del remote


def values(remote: Any, seed: int = 0) -> list[Any]:
    """Return an input, and room for an output that is not there yet."""
    import tvm

    x = case(seed).x
    return [tvm.runtime.tensor(value, remote.cpu()) for value in (x, np.full_like(x, 99))]


def test_a_program_is_measured_in_a_session(edge: Edge, tracker: int, tmp_path: Path) -> None:
    with session(edge, tracker, tmp_path, case().blob, case(5).blob) as remote:
        remote.get_function("edge.vta.use")("sim")
        measure = remote.get_function("edge.vta.measure")
        for name, seed in (("0.bin", 0), ("1.bin", 5)):
            x, y = values(remote, seed)
            measured = json.loads(measure(name, 3, 4, 20, x, y))
            np.testing.assert_array_equal(y.numpy(), case(seed).y)
            assert measured["device"] == "vta:sim" and measured["times_ms"] == [], (
                "a simulation has no clock's times"
            )
            model = measured["modelled"]
            assert (model["mhz"], model["version"]) == (100, 1) and model["cycles"] > 0
            assert model["ms"] == pytest.approx(model["cycles"] / 1e5)
        del measure, x, y


def test_a_bad_program_is_refused_in_a_session(native: Edge, tracker: int, tmp_path: Path) -> None:
    import tvm

    blob = case().blob
    bad = {
        blob[:-4096]: "it was cut",
        blob[:60]: "it was cut",
        b"": "it was cut",
        blob[:9000] + bytes([blob[9000] ^ 8]) + blob[9001:]: "its checksum is wrong",
        checked(blob[:12] + struct.pack("<I", 7) + blob[16:]): "isa_rev is 7",
        checked(blob[:12] + struct.pack("<I", 1) + blob[16:]): "the program is refused: ",
    }
    with session(native, tracker, tmp_path, *bad) as remote:
        remote.get_function("edge.vta.use")("sim")
        measure = remote.get_function("edge.vta.measure")
        x, y = values(remote)
        for number, words in enumerate(bad.values()):
            with pytest.raises(tvm.error.RPCError, match=words):
                measure(f"{number}.bin", 1, 1, 0, x, y)
        assert y.numpy().min() == 99, "nothing was written"
        del measure, x, y


def test_refused_requests_of_a_session(native: Edge, tracker: int, tmp_path: Path) -> None:
    import tvm

    with session(native, tracker, tmp_path, case().blob) as remote:
        measure = remote.get_function("edge.vta.measure")
        x, y = values(remote)
        with pytest.raises(
            tvm.error.RPCError, match="a simulation is taken where its name is given: vta:sim"
        ):
            measure("0.bin", 1, 1, 0, x, y)
        remote.get_function("edge.vta.use")("sim")
        for arguments, words in [
            ((), "takes a file's name, three numbers"),
            (("0.bin", 0, 1, 0, x, y), "takes a file's name, three numbers"),
            (("0.bin", 1, -1, 0, x, y), "takes a file's name, three numbers"),
            (("0.bin", 1, 1, 2**40, x, y), "takes a file's name, three numbers"),
            (("0.bin", 1, 1, 0, x, "y"), "takes a file's name, three numbers"),
            ((0, 1, 1, 0, x, y), "takes a file's name, three numbers"),
            (("../0.bin", 1, 1, 0, x, y), "the file name .* is refused"),
            (("none.bin", 1, 1, 0, x, y), "there is no such file"),
            (("0.bin", 1, 1, 0), "called with 0 inputs and 0 outputs, and has 1 and 1"),
            (("0.bin", 1, 1, 0, x), "called with 1 input and 0 outputs"),
            (("0.bin", 1, 1, 0, x, y, y), "called with 1 input and 2 outputs"),
        ]:
            with pytest.raises((tvm.error.RPCError, TypeError, ValueError), match=words):
                measure(*arguments)
        wide = tvm.runtime.tensor(np.zeros((2, 8, 8, 16), np.float32), remote.cpu())
        with pytest.raises(tvm.error.RPCError, match=r"input 0 is float32\[2, 8, 8, 16\] where"):
            measure("0.bin", 1, 1, 0, wide, y)
        assert json.loads(measure("0.bin", 1, 1, 0, x, y))["modelled"]["cycles"] > 0, "it goes on"
        del measure, x, y, wide

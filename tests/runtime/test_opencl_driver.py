"""What edge-rt asks of a driver and makes of its answers: of one like Arm's, which computes nothing."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime import opencl_network
from tests.runtime.conftest import Edge
from tests.runtime.stub_drivers import FAKE, stub
from tests.runtime.test_opencl import FAILED, PROGRAMS, Device, device_for, kept, opencl

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

KERNELS = 5  # of the network
BUFFERS = 4  # of the other one: its input, two outputs, and what is between the first one's kernels


class Fake:
    """edge-rt with that driver."""

    def __init__(self, device: Device, library: Path, folder: Path) -> None:
        self.device, self.library, self.folder = device, library, folder
        self.state = folder / "state"

    def __call__(self, *arguments: str | Path, **environment: str) -> tuple[int, Any, Counter[str]]:
        """Run it; return the exit code, the document, and how often the driver was asked what."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        log.touch()
        code, answer = self.device(*arguments, LD_LIBRARY_PATH=self.library, FAKE_LOG=log, **environment)
        return code, answer, Counter(log.read_text().splitlines())

    def bench(self, **environment: str) -> tuple[int, Any, Counter[str]]:
        arguments = self.device.arguments(self.state)
        return self("bench", *arguments, "--repeat", "1", "--warmup", "0", **environment)

    def workspace(self, command: str, *arguments: str, **environment: str) -> tuple[int, Any, Counter[str]]:
        """Run the network whose function has memory of its own."""
        (self.folder / "workspace.so").write_bytes(opencl_network.workspace())
        np.save(self.folder / "numbers.npy", np.zeros(1024, "float32"))
        given = (self.folder / "workspace.so", "--input", self.folder / "numbers.npy", "--device", "opencl")
        return self(command, *given, "--state", self.state, *arguments, **environment)

    def workspace_once(self, **environment: str) -> tuple[int, Any, Counter[str]]:
        return self.workspace("run", "--output", str(self.folder / "z.npz"), **environment)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub(tmp_path_factory.mktemp("fake") / "driver", source=FAKE)


@pytest.fixture(scope="module", params=PROGRAMS)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    return device_for(request, tmp_path_factory.mktemp("opencl"))


@pytest.fixture
def fake(device: Device, library: Path, tmp_path: Path) -> Fake:
    return Fake(device, library, tmp_path)


def test_info_lists_device_limits(fake: Fake) -> None:
    _, answer, calls = fake("info", "--devices", "--state", fake.state)
    (facts,) = opencl(answer)["details"]
    assert facts == {
        "name": "Mali-T860",
        "type": "gpu",
        "vendor": "ARM",
        "version": "OpenCL 1.2 v1.r14p0",
        "driver": "libOpenCL.so.1",
        "driver_version": "1.2",
        "platform": "ARM Platform, OpenCL 1.2 v1",
        "compute_units": 4,
        "clock_mhz": 800,
        "max_work_group": 256,
        "max_work_items": [256, 256, 256],
        "local_bytes": 32768,
        "global_bytes": 2**31,
        "max_alloc_bytes": 2**29,
        "cache_bytes": 2**18,
        "cache_line_bytes": 64,
        "float_lanes": 4,
        "half_lanes": 8,
        "half": True,
    }
    assert calls == {}, "no context for a question"


def test_kernels_are_compiled_once(fake: Fake) -> None:
    code, answer, calls = fake.bench()
    assert code == 0, answer
    assert (calls["context"], calls["source"], calls["binary"]) == (1, KERNELS, 0)
    assert all(path.read_bytes()[:-8].endswith(b"compiled") for path in kept(fake.state)), "taken too early"
    _, _, again = fake.bench()
    assert (again["source"], again["binary"], again["launch"]) == (0, KERNELS, calls["launch"])


def test_driver_update_recompiles(fake: Fake) -> None:
    fake.bench()
    code, _, calls = fake.bench(FAKE_DRIVER="1.3")
    assert code == 0 and (calls["source"], calls["binary"], calls["binary refused"]) == (KERNELS, 0, 0)
    assert len(kept(fake.state)) == 2 * KERNELS
    code, _, calls = fake.bench(FAKE_FAIL="clCreateProgramWithBinary")
    assert code == 0 and (calls["source"], calls["binary refused"]) == (KERNELS, KERNELS)


def test_cache_size_is_limited(fake: Fake) -> None:
    fake.bench()
    entries = kept(fake.state)
    for number in range(1100):
        old = entries[0].with_name(f"{number:016x}.bin")
        old.write_bytes(b"old")
        os.utime(old, (number, number))
    left = entries[0].with_name("0.bin.1.new")
    left.write_bytes(b"of a process that was killed")
    os.utime(left, (1, 1))
    fake.bench(FAKE_DRIVER="1.3")
    now = set(kept(fake.state))
    assert len(now) == 1024 and not left.exists() and set(entries) <= now
    assert (
        entries[0].with_name(f"{0:016x}.bin") not in now and entries[0].with_name(f"{1099:016x}.bin") in now
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("clCreateContext", "clCreateContext says CL_OUT_OF_HOST_MEMORY (-6)"),
        (
            "clCreateBuffer",
            "clCreateBuffer says CL_MEM_OBJECT_ALLOCATION_FAILURE (-4): 1 MiB are not to be had; ",
        ),
        ("clEnqueueNDRangeKernel", "clEnqueueNDRangeKernel says CL_OUT_OF_RESOURCES (-5): kernel "),
        ("clFinish", "what was begun has failed"),
    ],
)
def test_failure_names_the_call_and_the_device(fake: Fake, call: str, says: str) -> None:
    code, answer, _ = fake.bench(FAKE_FAIL=call)
    message = answer["error"]["message"]
    assert code == FAILED and "OpenCL: " + call in message and says in message, message
    assert message.endswith("device Mali-T860, driver 1.2") and "cause" not in answer["error"]
    if call == "clFinish":
        assert "; the last kernel begun is " in message
    if call == "clCreateBuffer":
        assert "it has 2048 MiB, at most 512 MiB at once" in message


def test_distinguishes_too_many_registers_from_too_many_items(fake: Fake) -> None:
    code, answer, calls = fake.bench(FAKE_GROUP="32")
    message = answer["error"]["message"]
    assert code == FAILED and "kernel matmul_kernel cannot be begun with" in message
    assert "too many registers, with which a work group has at most 32 work items" in message
    assert answer["error"]["cause"] == "registers" and message.startswith("OpenCL: ")
    assert calls["launch"] == 0


def test_long_logs_are_cut(fake: Fake) -> None:
    for length in (0, 100, 2**20, 2**25):
        code, answer, _ = fake.bench(FAKE_FAIL="clBuildProgram", FAKE_TOLD=str(length))
        message = answer["error"]["message"]
        assert code == FAILED and "CL_BUILD_PROGRAM_FAILURE (-11): kernel matmul_kernel does not" in message
        says = {0: "its log is empty", 2**25: f"its log has {2**25 + 1} bytes"}.get(
            length, "its log:\nwwwwww"
        )
        assert says in message and len(message) < 70000
        assert (f"\nand {2**20 - 2**16} bytes more; device" in message) == (length == 2**20)


def test_a_driver_without_devices_is_named(fake: Fake) -> None:
    _, answer, _ = fake("info", "--devices", "--state", fake.state, FAKE_DEVICES="0")
    problem = opencl(answer)["problem"]
    assert "libOpenCL.so.1 knows no device that compiles (CL_DEVICE_NOT_FOUND (-1))" in problem


@pytest.mark.parametrize("fail", ["", "clEnqueueNDRangeKernel"])
def test_drivers_exit_handlers_are_skipped(fake: Fake, fail: str) -> None:
    """PoCL's threads may still compile a kernel when another has failed: the program ended with SIGSEGV."""
    code, answer, _ = fake.bench(FAKE_CRASH="1", FAKE_FAIL=fail)
    assert code == (FAILED if fail else 0) and ("error" in answer) == bool(fail)
    code, _, _ = fake.workspace_once(FAKE_CRASH="1", FAKE_FAIL=fail)
    assert code == (FAILED if fail else 0)


def test_unchanged_arguments_are_not_set_again(fake: Fake) -> None:
    few, many = (fake.workspace("bench", "--repeat", "1", "--number", number) for number in ("1", "16"))
    assert many[2]["launch"] == few[2]["launch"] + 15 * 3
    changed = many[2]["argument"] - few[2]["argument"]
    assert few[2]["argument"] and changed <= 15, "of 90: an output that lies elsewhere each time"


def test_reused_address_is_set_as_a_new_argument(
    device: Device, library: Path, tracker: int, tmp_path: Path
) -> None:
    import tvm
    from tvm import rpc

    (tmp_path / "log").touch()
    settings = {**device.settings, "LD_LIBRARY_PATH": str(library), "FAKE_LOG": str(tmp_path / "log")}
    words = (f"{name}={value}" for name, value in settings.items())
    (tmp_path / "lib.so").write_bytes(opencl_network.plus_one())
    with Edge("x86_64", ("env", *words, device.program)).serving(tmp_path / "serving", tracker):
        remote = rpc.connect_tracker("127.0.0.1", tracker).request("board", session_timeout=120)
        remote.upload(tmp_path / "lib.so")
        run, card = remote.load_module("lib.so")["main"], remote.device("opencl")
        for _ in range(3):
            a, b = (tvm.runtime.empty((64,), "float32", card) for _ in range(2))
            run(a, b)
            run(a, b)
            del a, b
        del run, remote
    calls = Counter((tmp_path / "log").read_text().splitlines())
    assert calls["launch"] == 6 and calls["argument"] == 6 and calls["an argument that was freed"] == 0


def test_work_group_accepted_by_the_driver_is_launched(fake: Fake) -> None:
    code, answer, calls = fake.bench(FAKE_GROUP="32", FAKE_TAKES="256")
    assert code == 0 and calls["launch"] > 0, answer


def test_workspace_is_allocated_once(fake: Fake) -> None:
    once, often = (fake.workspace("bench", "--warmup", "0", "--repeat", repeat) for repeat in ("1", "9"))
    assert once[0] == often[0] == 0, often[1]
    assert often[2]["launch"] == once[2]["launch"] + 8 * 3
    assert often[2]["buffer"] == once[2]["buffer"]


def test_idle_memory_is_freed_on_shortage(fake: Fake) -> None:
    code, answer, calls = fake.workspace_once(FAKE_BUFFERS=f"{BUFFERS - 1}")
    assert code == 0, answer
    assert (calls["buffer"], calls["buffer refused"]) == (BUFFERS, 1)


def test_failed_workspace_allocation_is_reported(fake: Fake) -> None:
    code, answer, calls = fake.workspace_once(FAKE_BUFFERS=f"{BUFFERS - 2}")
    assert code == FAILED and "clCreateBuffer says CL_MEM_OBJECT" in answer["error"]["message"]
    assert calls["launch"] == 0


def test_lazy_allocation_failure_at_launch(fake: Fake) -> None:
    code, answer, calls = fake.workspace_once(FAKE_LAZY=f"{BUFFERS - 1}")
    assert code == 0, answer
    assert (calls["launch"], calls["launch refused"]) == (3, 1), "what was kept is given up first"
    code, answer, calls = fake.workspace_once(FAKE_LAZY="1")
    message = answer["error"]["message"]
    assert code == FAILED and calls["launch"] == 0
    assert "clEnqueueNDRangeKernel says CL_MEM_OBJECT_ALLOCATION_FAILURE (-4): kernel " in message
    assert "the memory that it uses is not to be had, the device has 2048 MiB in all; device" in message


def test_nvidias_cache_is_ours_without_a_home(fake: Fake, tmp_path: Path) -> None:
    where = str(fake.state.resolve() / "devices" / "nvidia")
    assert fake.bench()[2][where] == 1
    assert fake.bench(HOME=str(tmp_path))[2]["no CUDA_CACHE_PATH"] == 1, "its own place"
    assert fake.bench(CUDA_CACHE_PATH="/else")[2]["/else"] == 1


def test_kernels_are_flushed_early(fake: Fake) -> None:
    assert fake.workspace_once()[2]["flush"] == 1, "of three kernels"
    few, many = (fake.workspace("bench", "--repeat", "1", "--number", number) for number in ("1", "16"))
    assert many[2]["launch"] == few[2]["launch"] + 15 * 3
    assert many[2]["flush"] == few[2]["flush"] + 1, "of 48 kernels, the first and the 25th"

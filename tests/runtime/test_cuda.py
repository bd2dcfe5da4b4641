"""Networks on NVIDIA's GPUs: what edge-rt asks of the driver. The emulated one computes on this CPU."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime import cuda_network, networks
from tests.runtime.conftest import Case
from tests.runtime.cuda_device import FAILED, REQUIRES, USAGE, Cuda, X, device_of, names
from tests.runtime.test_opencl import PROGRAMS, Device
from toolchain.devices.facts import CudaFacts

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled


@pytest.fixture(scope="module", params=PROGRAMS)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    return device_of(request, tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def cuda(device: Device, tmp_path: Path) -> Cuda:
    return Cuda(device, tmp_path)


def found(document: Any) -> Any:
    (kind,) = [kind for kind in document["devices"] if kind["kind"] == "cuda"]
    return kind


def test_info_lists_limits_without_a_context(cuda: Cuda) -> None:
    _, answer, log = cuda("info")
    assert "cuda" not in [kind["kind"] for kind in answer["devices"]] and log == []
    code, answer, log = cuda("info", "--devices", EDGE_CUDA_DEVICES="2", EDGE_CUDA_CAPABILITY="9.0")
    assert (code, found(answer)["problem"], names(log)) == (0, None, [])
    assert not [entry for entry in log if "Ctx" in entry["call"]]
    first, second = found(answer)["details"]
    assert found(answer)["names"] == [first["name"], second["name"]]
    facts = CudaFacts.model_validate(first)
    assert (facts.architecture, facts.driver_version, facts.type) == (90, "13.0", "gpu")
    assert (facts.max_work_group, facts.local_bytes, first["max_local_bytes"]) == (1024, 49152, 232448)


def test_emulated_driver_is_marked(cuda: Cuda) -> None:
    (facts,) = found(cuda("info", "--devices")[1])["details"]
    assert (facts["type"], facts["architecture"]) == ("cpu", 0)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"EDGE_CUDA_DRIVER": "/no/libcuda.so.1"}, "/no/libcuda.so.1 is not here: NVIDIA's driver is not"),
        ({"EDGE_CUDA_DRIVER": "libm.so.6"}, "libm.so.6 has no cu"),
        ({"EDGE_CUDA_FAULT": "cuInit:100"}, "cuInit says CUDA_ERROR_NO_DEVICE (100): there is no NVIDIA GPU"),
        ({"EDGE_CUDA_FAULT": "cuInit:803"}, "cuInit says CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        ({"EDGE_CUDA_FAULT": "cuInit:12345"}, "cuInit says the unknown code 12345"),
        ({"EDGE_CUDA_FAULT": "cuDriverGetVersion:999"}, "cuDriverGetVersion says CUDA_ERROR_UNKNOWN (999)"),
        ({"EDGE_CUDA_FAULT": "cuDeviceGetCount:3"}, "no GPU: it says CUDA_ERROR_NOT_INITIALIZED (3)"),
        ({"EDGE_CUDA_DEVICES": "0"}, "cuInit says CUDA_ERROR_NO_DEVICE (100)"),
    ],
)
def test_missing_gpu_is_reported(cuda: Cuda, environment: dict[str, str], says: str) -> None:
    code, answer, _ = cuda("info", "--devices", **environment)
    assert code == 0 and found(answer)["names"] == [] and says in found(answer)["problem"]
    code, answer, _ = cuda("bench", "no.so", "--device", "cuda", **environment)
    assert (code, answer["error"]["missing"]) == (REQUIRES, ["cuda"])
    assert says in answer["error"]["message"]


def test_hanging_driver_affects_its_devices_only(cuda: Cuda, dense: Case) -> None:
    begin = time.monotonic()
    code, answer, log = cuda("info", "--devices", "--timeout", "5", EDGE_CUDA_FAULT="cuInit:hang")
    assert code == 0 and found(answer)["problem"] == "its driver did not answer within 5.000000 s"
    assert answer["devices"][0]["names"] and time.monotonic() - begin < 30 and log[-1]["hangs"]
    code, answer, log = cuda("bench", *dense.arguments[:-2], EDGE_CUDA_FAULT="cuInit:hang")
    assert code == 0 and log == [], "a network for the CPU opens no driver"


def in_order(calls: list[str], *names: str) -> None:
    """Check that the first calls of these names come in this order."""
    first = [calls.index(name) for name in names]
    assert first == sorted(first), names


def test_order_of_driver_calls(cuda: Cuda) -> None:
    """Code is loaded before constants, and a graph is freed before the memory that it uses."""
    y, log = cuda.run(cuda_network.chain())
    np.testing.assert_array_equal(y, cuda_network.chained(X))
    calls = names(log)
    assert calls[0] == "cuCtxSetCurrent", "before each of the others, for whoever shares the thread"
    in_order(calls, "cuModuleLoadData", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel")
    in_order(calls, "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags")
    in_order(calls, "cuMemcpyDtoHAsync_v2", "cuGraphExecDestroy", "cuMemFree_v2")
    in_order([entry["call"] for entry in log], "cuDevicePrimaryCtxRetain", "cuStreamCreate")
    begin, end = calls.index("cuStreamBeginCapture_v2"), calls.index("cuStreamEndCapture")
    assert calls[begin:end].count("cuLaunchKernel") == 4 and "cuMemAlloc_v2" not in calls[begin:end]
    assert calls.count("cuStreamCreate") == 1 + calls.count("cuStreamDestroy_v2")  # the network's own stays
    launches = [entry for entry in log if entry.get("call") == "cuLaunchKernel"]
    assert len(launches) == 10
    assert [entry["kernel"] for entry in launches[1:5]] == [entry["kernel"] for entry in launches[5:9]]
    assert {(entry["grid_x"], entry["block_x"]) for entry in launches} == {(64, 16)}
    assert len({entry["stream"] for entry in launches[5:9]}) == 1
    assert launches[5]["stream"] != launches[0]["stream"], "other threads go on meanwhile"


def test_graph_is_captured_once(cuda: Cuda) -> None:
    arguments = ("bench", *cuda.network(cuda_network.chain()), "--warmup", "1", "--number", "5")
    code, answer, log = cuda(*arguments, "--repeat", "2")
    calls = Counter(names(log))
    assert code == 0 and answer["number"] == 5, answer
    # Twelve runs, with that for the copies: all but the first launch the graph, between two kernels.
    assert (calls["cuStreamBeginCapture_v2"], calls["cuGraphLaunch"]) == (1, 11)
    assert calls["cuLaunchKernel"] == 2 * 12 + 2 * 4
    assert calls["cuEventElapsedTime"] == 2 and answer["times_ms"][0] > 0
    for option in (("--graph", "off"), ("--graph=off",)):
        _, _, log = cuda(*arguments, "--repeat", "2", *option)
        without = Counter(names(log))
        assert without["cuStreamBeginCapture_v2"] == without["cuGraphLaunch"] == 0
        assert without["cuLaunchKernel"] == 6 * 12
    code, answer, _ = cuda(*arguments, "--graph", "maybe")
    assert (code, answer["error"]["message"]) == (USAGE, "--graph maybe: on or off")


def test_run_after_a_warm_up_writes_the_graphs_output(cuda: Cuda) -> None:
    y, log = cuda.run(cuda_network.chain(), "--warmup", "2")
    np.testing.assert_array_equal(y, cuda_network.chained(X))
    calls = names(log)
    assert calls.count("cuGraphLaunch") == 2 and calls.count("cuStreamBeginCapture_v2") == 1
    last = len(calls) - 1 - calls[::-1].index("cuMemcpyDtoHAsync_v2")
    assert "cuGraphLaunch" in calls[last - 20 : last]


def test_profile_synchronises_operators_and_uses_no_graph(cuda: Cuda) -> None:
    arguments = (*cuda.network(cuda_network.chain()), "--warmup", "0", "--repeat", "1")
    _, _, plain = cuda("bench", *arguments)
    code, answer, log = cuda("bench", *arguments, "--profile")
    assert code == 0, answer
    counts = {operator["name"]: operator["calls"] for operator in answer["operators"]}
    assert counts == {"first": 1, "own_memory": 1, "scale": 1, "again": 1, "double": 1}
    for name in ("cuGraphLaunch", "cuStreamBeginCapture_v2"):
        assert names(log).count(name) == names(plain).count(name)
    profiled = names(log)[len(names(plain)) - 5 :]  # five calls free it all
    launches = [at for at, name in enumerate(profiled) if name == "cuLaunchKernel"]
    assert len(launches) >= 6 * 4
    waits = profiled[launches[0] :].count("cuStreamSynchronize")
    assert waits >= 5 * 4


def test_network_without_graphs(cuda: Cuda) -> None:
    """Two inputs, two outputs and kernels of TVM's own schedules; numbers that are not whole."""
    random = np.random.default_rng(0)
    x, bias = random.standard_normal((4, 8), np.float32), random.standard_normal(16, np.float32)
    np.save(cuda.folder / "bias.npy", bias)
    arguments = cuda.network(cuda_network.dense(), x)
    out = cuda.folder / "o.npz"
    code, answer, _ = cuda("run", *arguments, "--input", cuda.folder / "bias.npy", "--output", out)
    assert code == 0, answer
    with np.load(out) as outputs:
        for output, expected in zip(outputs.values(), networks.dense(x, bias), strict=True):
            np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kib", "requested"), [(16, []), (64, [65536]), (227, [232448])])
def test_kernel_gets_its_dynamic_shared_memory(cuda: Cuda, kib: int, requested: list[int]) -> None:
    x = np.arange(kib * 256, dtype="float32")
    y, log = cuda.run(cuda_network.shared(len(x)), x=x)
    np.testing.assert_array_equal(y, x[::-1] + 1)
    assert [entry["value"] for entry in log if entry.get("call") == "cuFuncSetAttribute"] == requested
    (launch,) = [entry for entry in log if entry.get("call") == "cuLaunchKernel"]
    assert launch["shared"] == kib * 1024


def test_refuses_too_much_shared_memory(cuda: Cuda) -> None:
    x = np.zeros(228 * 256, "float32")
    code, error = cuda.fails(cuda_network.shared(len(x)), x)
    assert (code, error["cause"]) == (FAILED, "shared-memory")
    assert "it needs 233472 bytes of shared memory, a block has at most 232448" in error["message"]


def test_refuses_blocks_with_too_many_threads(cuda: Cuda) -> None:
    for block, says in (
        (
            (2048,),
            "1 x 1 x 1 blocks of 2048 x 1 x 1 threads: a block has at most 1024 threads along axis x; ",
        ),
        ((64, 32), "1 x 1 x 1 blocks of 64 x 32 x 1 threads: a block has at most 1024 threads; "),
    ):
        code, error = cuda.fails(cuda_network.plus_one(2048, *block), np.zeros(2048, "float32"))
        assert (code, error["cause"]) == (FAILED, "work-group")
        assert says + "emulated (emulated), driver for CUDA 13.0" in error["message"]


def test_one_of_several_gpus_can_be_chosen(cuda: Cuda) -> None:
    only = ("--only-device", "cuda:1")
    code, answer, log = cuda("info", "--devices", *only, EDGE_CUDA_DEVICES="2")
    assert code == 0 and len(found(answer)["names"]) == 1
    library = cuda.network(cuda_network.chain())
    output = ("--output", cuda.folder / "y.npz")
    code, answer, log = cuda("run", *library, *output, *only, EDGE_CUDA_DEVICES="2")
    assert code == 0, answer
    assert {entry["device"] for entry in log if entry.get("call") == "cuDevicePrimaryCtxRetain"} == {1}
    code, answer, _ = cuda("run", *library, *output, *only)
    assert (
        code == REQUIRES
        and "is to compute on cuda:1, and the last one here is cuda:0" in answer["error"]["message"]
    )
    for name in ("cuda", "cuda:", "cuda:x", "cpu:0", "vta:0", "fpga:0"):
        code, answer, _ = cuda("info", "--only-device", name)
        assert code == USAGE and "give KIND:NUMBER" in answer["error"]["message"], name

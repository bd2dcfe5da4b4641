"""Calls of NVIDIA's driver that fail, and kernels that do: what edge-rt says, and what it does next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime import cuda_network
from tests.runtime.cuda_device import FAILED, Cuda, X, device_of, names
from tests.runtime.test_opencl import PROGRAMS, Device

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled


@pytest.fixture(scope="module", params=PROGRAMS)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    return device_of(request, tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def cuda(device: Device, tmp_path: Path) -> Cuda:
    return Cuda(device, tmp_path)


FAULTS = [
    # call and result, cause, words
    (
        "cuDevicePrimaryCtxRetain:2",
        "out-of-memory",
        "cuDevicePrimaryCtxRetain says CUDA_ERROR_OUT_OF_MEMORY (2)",
    ),
    ("cuDevicePrimaryCtxRetain:999", None, "cuDevicePrimaryCtxRetain says CUDA_ERROR_UNKNOWN (999)"),
    ("cuCtxSetCurrent:201", None, "cuCtxSetCurrent says CUDA_ERROR_INVALID_CONTEXT (201)"),
    ("cuStreamCreate:2", "out-of-memory", "cuStreamCreate says"),
    ("cuStreamCreate:2:2", "out-of-memory", "cuStreamCreate says"),  # the one for captures
    (
        "cuModuleLoadData:200",
        None,
        "cuModuleLoadData says CUDA_ERROR_INVALID_IMAGE (200): code for emulated of fi",
    ),
    (
        "cuModuleGetFunction:500:3",
        None,
        "cuModuleGetFunction says CUDA_ERROR_NOT_FOUND (500): own_memory_kernel_1",
    ),
    (
        "cuMemAlloc_v2:2",
        "out-of-memory",
        "cuMemAlloc says CUDA_ERROR_OUT_OF_MEMORY (2): 1 MiB are not to be had: ",
    ),
    ("cuMemcpyHtoDAsync_v2:1", None, "cuMemcpyHtoDAsync says CUDA_ERROR_INVALID_VALUE (1)"),
    ("cuMemcpyDtoHAsync_v2:719", "kernel-fault", "; the last one begun is kernel double_kernel"),
    (
        "cuLaunchKernel:701",
        "registers",
        "cuLaunchKernel says CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): its blocks",
    ),
    (
        "cuLaunchKernel:1",
        None,
        "cuLaunchKernel says CUDA_ERROR_INVALID_VALUE (1): kernel first_kernel, 64 x 1 x 1",
    ),
    (
        "cuLaunchKernel:719:3",
        "kernel-fault",
        "CUDA_ERROR_LAUNCH_FAILED (719): kernel own_memory_kernel_1, 64 x",
    ),
    (
        "cuLaunchKernel:1:7",
        None,
        "CUDA_ERROR_INVALID_VALUE (1): kernel own_memory_kernel_1",
    ),  # while capturing
    (
        "cuStreamSynchronize:700:5",
        "kernel-fault",
        "cuStreamSynchronize says CUDA_ERROR_ILLEGAL_ADDRESS (700): wha",
    ),
    (
        "cuStreamBeginCapture_v2:900",
        None,
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): a graph of the network's",
    ),
    (
        "cuStreamEndCapture:901",
        None,
        "(901): a graph of the network's kernels; --graph off runs them one by one;",
    ),
    (
        "cuGraphInstantiateWithFlags:2",
        "out-of-memory",
        "cuGraphInstantiate says CUDA_ERROR_OUT_OF_MEMORY (2)",
    ),
]


@pytest.mark.parametrize(("fault", "cause", "says"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_failure_names_the_call_and_the_gpu(cuda: Cuda, fault: str, cause: str | None, says: str) -> None:
    code, error = cuda.fails(cuda_network.chain(), EDGE_CUDA_FAULT=fault)
    assert (code, error.get("cause")) == (FAILED, cause)
    message = error["message"]
    assert message.startswith("CUDA: ") and says in message and "[cause" not in message
    assert "emulated (emulated), driver for CUDA 13.0" in message
    assert message.endswith("nothing more can be computed in this process") == (cause == "kernel-fault")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("cuGraphLaunch:700", "cuGraphLaunch says CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
        ("cuEventCreate:2", "cuEventCreate says CUDA_ERROR_OUT_OF_MEMORY (2)"),
        ("cuEventRecord:400:2", "cuEventRecord says CUDA_ERROR_INVALID_HANDLE (400)"),
        ("cuEventSynchronize:719", "cuEventSynchronize says CUDA_ERROR_LAUNCH_FAILED (719)"),
        ("cuEventElapsedTime:999", "cuEventElapsedTime says CUDA_ERROR_UNKNOWN (999)"),
        (
            "cuFuncSetAttribute:1",
            "cuFuncSetAttribute says CUDA_ERROR_INVALID_VALUE (1): kernel reversed_kernel, 1",
        ),
    ],
)
def test_failure_while_timing(cuda: Cuda, fault: str, says: str) -> None:
    shared = fault.startswith("cuFunc")
    library = cuda_network.shared(64 * 256) if shared else cuda_network.chain()
    x = np.zeros(64 * 256, "float32") if shared else X
    code, answer, _ = cuda("bench", *cuda.network(library, x), "--repeat", "1", EDGE_CUDA_FAULT=fault)
    assert code == FAILED and says in answer["error"]["message"], answer


def test_idle_gpu_memory_is_freed_on_shortage(cuda: Cuda) -> None:
    """The sixth allocation, for the output, fails once: the workspace is freed, and it is tried again."""
    y, log = cuda.run(cuda_network.chain(), "--graph", "off", EDGE_CUDA_FAULT="cuMemAlloc_v2:2:6")
    np.testing.assert_array_equal(y, cuda_network.chained(X))
    calls = names(log)
    failed = next(at for at, entry in enumerate(log) if entry.get("result") == 2)
    after = [entry["call"] for entry in log[failed:] if entry["call"] != "cuCtxSetCurrent"]
    assert after[:4] == [
        "cuMemAlloc_v2",
        "cuStreamSynchronize",
        "cuMemFree_v2",
        "cuMemAlloc_v2",
    ]
    assert calls.count("cuMemAlloc_v2") == 7


def wild(source: str) -> str:
    """Return a kernel that writes far behind its output."""
    assert source.count("y_ptr[") == 1
    return source.replace("y_ptr[", "y_ptr[1000000000 + ")


def test_illegal_address_ends_the_session(cuda: Cuda) -> None:
    code, error = cuda.fails(cuda_network.plus_one(1024, 16, change=wild))
    assert (code, error["cause"]) == (FAILED, "kernel-fault")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in error["message"]
    assert "the last one begun is kernel plus_one_kernel" in error["message"]

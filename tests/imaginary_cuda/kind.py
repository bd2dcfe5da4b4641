"""A kind of device that nothing of the package knows of: what CUDA would be, without a GPU to run it."""

from __future__ import annotations

from tests.imaginary_cuda.language import CUDA_CPP
from toolchain.devices.device import Device
from toolchain.devices.facts import Count, DeviceFacts
from toolchain.devices.kind import DeviceKind


class CudaFacts(DeviceFacts):
    """What its driver would say."""

    multiprocessors: Count
    shared_bytes: Count


def target_options(device: Device) -> dict[str, object]:
    return {
        "arch": device.own["arch"],
        "max_threads_per_block": device.max_work_group,
        "max_num_threads": device.max_work_group,
        "max_shared_memory_per_block": device.local_bytes,
        "thread_warp_size": 32,
    }


def facts() -> type[DeviceFacts]:
    return CudaFacts


CUDA = DeviceKind(
    name="cuda",
    named="the driver's",
    needs=frozenset(
        {"compute_units", "max_work_group", "local_bytes", "private_bytes", "vector_bytes", "half"}
    ),
    own={"arch": "instruction set of its multiprocessors, such as sm_87"},
    target_options=target_options,
    half="instructions for it",
    described="gpu",
    compile_s=60.0,
    peaks={"orin": 4e12},
    facts=facts,
    failures={"out-of-resources": "registers", "invalid-ptx": "build"},
    nodes=("/dev/nvhost-gpu", "/dev/imaginary-cuda"),
    language=CUDA_CPP,
    code={
        "backends": "tests.imaginary_cuda.code:OFFERS",
        "dialect": "tests.imaginary_cuda.dialect:DIALECT",
        "machine": "tests.imaginary_cuda.code:machine",
        "schedules": "toolchain.backends.tensorir.rules:gpu_space",
        "model": "tests.imaginary_cuda.model:MODELS",
        "status": "tests.imaginary_cuda.status:LOOK",
    },
)

"""A kind of device that nothing of the package knows of: what Metal would be, without a GPU to run it."""

from __future__ import annotations

from tests.imaginary_metal.language import METAL_CPP
from toolchain.devices.device import Device
from toolchain.devices.facts import Count, DeviceFacts
from toolchain.devices.kind import DeviceKind


class MetalFacts(DeviceFacts):
    """What its driver would say."""

    multiprocessors: Count
    shared_bytes: Count


def target_options(device: Device) -> dict[str, object]:
    return {
        "max_threads_per_block": device.max_work_group,
        "max_num_threads": device.max_work_group,
        "max_shared_memory_per_block": device.local_bytes,
        "thread_warp_size": 32,
    }


def facts() -> type[DeviceFacts]:
    return MetalFacts


METAL = DeviceKind(
    name="metal",
    named="the driver's",
    needs=frozenset(
        {"compute_units", "max_work_group", "local_bytes", "private_bytes", "vector_bytes", "half"}
    ),
    own={"family": "family of GPUs by their instructions, such as apple7"},
    target_options=target_options,
    half="instructions for it",
    described="gpu",
    compile_s=60.0,
    peaks={"g13": 4e12},
    facts=facts,
    failures={"out-of-threads": "registers", "no-library": "build"},
    nodes=("/dev/imaginary-metal",),
    language=METAL_CPP,
    code={
        "backends": "tests.imaginary_metal.code:OFFERS",
        "dialect": "tests.imaginary_metal.dialect:DIALECT",
        "machine": "tests.imaginary_metal.code:machine",
        "schedules": "toolchain.backends.tensorir.rules:gpu_space",
        "model": "tests.imaginary_metal.model:MODELS",
        "status": "tests.imaginary_metal.status:LOOK",
    },
)

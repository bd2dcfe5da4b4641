"""The row of OpenCL: devices whose driver compiles OpenCL C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.devices.kind import DeviceKind, TestBed
from toolchain.devices.language import OPENCL_C

if TYPE_CHECKING:
    from toolchain.devices.device import Device
    from toolchain.devices.facts import DeviceFacts


def _target_options(device: Device) -> dict[str, object]:
    options: dict[str, object] = {
        "max_threads_per_block": device.max_work_group,
        "max_num_threads": device.max_work_group,
        "max_shared_memory_per_block": device.local_bytes,
        "thread_warp_size": 1,
    }
    if device.name and device.name.lower().startswith("mali"):
        options["device"] = "mali"  # TVM's own schedules look for it
    return options


def _facts() -> type[DeviceFacts]:
    from toolchain.devices.facts import OpenclFacts  # imports pydantic, which --help does without

    return OpenclFacts


OPENCL = DeviceKind(
    name="opencl",
    named="the driver's, for records of another device than the board class names",
    needs=frozenset(
        {"compute_units", "max_work_group", "local_bytes", "private_bytes", "vector_bytes", "half"}
    ),
    target_options=_target_options,
    half="cl_khr_fp16",
    described="gpu",
    # PoCL takes 20 s of a PC's core for MobileNet; a board's core is ten times slower.
    compile_s=300.0,
    # The largest Midgard has 12 cores with 20 operations per cycle; GPUs of phones reach about 5e12.
    peaks={"mali-t": 3e11, "mali": 1e13, "qualcomm": 1e13},
    facts=_facts,
    failures={"build": "build", "registers": "registers", "work-group": "work group"},
    nodes=("/dev/mali0", "/dev/dri/renderD*"),
    language=OPENCL_C,
    test_bed=TestBed(
        help=("A container with an OpenCL driver that computes on its CPU (PoCL): a slow test bed, no GPU."),
        board_class="rk3399",
        elsewhere="apt-get install ocl-icd-libopencl1 pocl-opencl-icd: OpenCL for `local`",
    ),
)

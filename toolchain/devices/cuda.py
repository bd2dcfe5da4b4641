"""The row of CUDA: NVIDIA's GPUs, for which kernels are compiled to machine code when a library is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.devices.cuda_architectures import EMULATED, OLDEST, architectures_of
from toolchain.devices.kind import DeviceKind, TestBed
from toolchain.devices.language import CUDA_CPP

if TYPE_CHECKING:
    from toolchain.devices.device import Device
    from toolchain.devices.facts import DeviceFacts


def _target_options(device: Device) -> dict[str, object]:
    from toolchain.devices.native_cuda import architectures_for

    names = architectures_for(device)
    generated = next((name for name in names if name != EMULATED), f"sm_{OLDEST}")
    return {
        "arch": generated,
        # TVM's target has one architecture and refuses options of ours; its keys are free.
        "keys": ["cuda", "gpu", *names],
        "max_threads_per_block": device.max_work_group,
        "max_num_threads": device.max_work_group,
        "max_shared_memory_per_block": device.local_bytes,
        "thread_warp_size": 32,
    }


def _facts() -> type[DeviceFacts]:
    from toolchain.devices.facts import CudaFacts  # imports pydantic, which --help does without

    return CudaFacts


CUDA = DeviceKind(
    name="cuda",
    named="the driver's, for records of that GPU",
    needs=frozenset(
        {"compute_units", "max_work_group", "local_bytes", "private_bytes", "vector_bytes", "half"}
    ),
    own={"arch": "instruction set of its GPU, such as sm_90, or a list for several GPUs"},
    check=architectures_of,
    target_options=_target_options,
    half="instructions for it",
    described="gpu",
    # Machine code needs no compiler on the board; loading it takes less than a second.
    compile_s=30.0,
    # As in TVM's tutorials for such GPUs: their clocks rise and fall within a tenth of a second.
    sample_ms=300,
    # Float32 without tensor cores, by NVIDIA's data sheets: H100 SXM 6.7e13, A100 2e13, Orin 5e12.
    peaks={"orin": 6e12},
    facts=_facts,
    failures={
        "kernel-fault": "runtime",  # an illegal address, for instance
        "out-of-memory": "runtime",
        "registers": "registers",
        "shared-memory": "work group",
        "work-group": "work group",
    },
    nodes=("/dev/nvidia[0-9]*", "/dev/nvhost-gpu"),
    tensors=True,
    graph=True,
    language=CUDA_CPP,
    image="cuda",
    test_bed=TestBed(
        help="A CUDA driver that computes on the board's CPU and checks every access: a slow test bed, "
        "no GPU. Boards of the classes cuda and jetson-orin have it without this option.",
        board_class="cuda",
        elsewhere="`toolchain build --check --arch emulated` computes on this host",
        is_file=True,
        entry={"arch": EMULATED, "name": EMULATED},
    ),
)

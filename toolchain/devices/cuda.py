"""The row of CUDA: NVIDIA's GPUs, for which kernels are compiled to machine code when a library is built."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolchain.devices.kind import DeviceKind, TestBed
from toolchain.devices.language import CUDA_CPP

if TYPE_CHECKING:
    from toolchain.devices.device import Device
    from toolchain.devices.facts import DeviceFacts

NATIVE = "native"
"""In place of an architecture: those of this host's GPUs."""

EMULATED = "emulated"
"""Architecture of the emulated driver, which computes on a CPU; for tests."""

_OLDEST = 80  # cp.async and tf32, which kernels use, begin with sm_80
_ARCHITECTURE = re.compile(r"sm_(\d{2,3})")


def architectures_of(device: Device) -> tuple[str, ...]:
    """Return the architectures that an entry of board.toml names, each once, the oldest first.

    Raises
    ------
    ValueError
        It names none, or one that code cannot be made for.
    """
    arch = device.own["arch"]
    names = [arch] if isinstance(arch, str) else arch
    if not isinstance(names, list | tuple) or not names:
        raise ValueError(f"arch is a name such as sm_90, or a list of such names, not {arch!r}")
    return (NATIVE,) if list(names) == [NATIVE] else tuple(sorted(set(names), key=number_of))


def number_of(arch: str) -> int:
    """Return the number of an architecture as libraries store it: 90 for `sm_90`, 0 for `emulated`.

    Raises
    ------
    ValueError
        It is not an architecture that code can be made for.
    """
    if arch == EMULATED:
        return 0
    found = _ARCHITECTURE.fullmatch(arch) if isinstance(arch, str) else None
    if not found or int(found[1]) < _OLDEST:
        raise ValueError(f"arch is sm_{_OLDEST} or newer, such as sm_90, or {EMULATED}, not {arch!r}")
    return int(found[1])


def _target_options(device: Device) -> dict[str, object]:
    from toolchain.devices.native_cuda import native_architectures

    names = architectures_of(device)
    if names == (NATIVE,):
        names = tuple(sorted(native_architectures(), key=number_of))
    generated = next((name for name in names if name != EMULATED), f"sm_{_OLDEST}")
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

"""The table of kinds of devices. A new kind is a row here or in a plugin: docs/howto/add-a-device.md."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolchain.devices.cuda_architectures import EMULATED, OLDEST, architectures_of
from toolchain.devices.kernel import CUDA_CPP, OPENCL_C
from toolchain.devices.kind import DeviceKind, DriverFile, Seam, TestBed
from toolchain.devices.plugins import FAULTS, load_plugin, plugins
from toolchain.errors import MissingError
from toolchain.foreign import first_line

if TYPE_CHECKING:
    from toolchain.devices.device import Device
    from toolchain.devices.facts import DeviceFacts


# The row of VTA: edge-rt runs its programs on an accelerator in programmable logic, or simulates it.

VTA = DeviceKind(
    name="vta",
    named="what runs its programs, pynq (the hardware) or sim",
    needs=frozenset({"config"}),
    simulation="sim",
    peaks={"": 1e13},  # no FPGA reaches more
    quantizers=("power-of-two", "global-scale"),  # its ALU shifts
    nodes=("/dev/xlnk", "/dev/uio*"),
)


# The row of OpenCL: devices whose driver compiles OpenCL C.


def _opencl_target_options(device: Device) -> dict[str, object]:
    options: dict[str, object] = {
        "max_threads_per_block": device.max_work_group,
        "max_num_threads": device.max_work_group,
        "max_shared_memory_per_block": device.local_bytes,
        "thread_warp_size": 1,
    }
    if device.name and device.name.lower().startswith("mali"):
        options["device"] = "mali"  # TVM's own schedules look for it
    return options


def _opencl_facts() -> type[DeviceFacts]:
    from toolchain.devices.facts import OpenclFacts  # imports pydantic, which --help does without

    return OpenclFacts


OPENCL = DeviceKind(
    name="opencl",
    named="the driver's, for records of another device than the board class names",
    needs=frozenset(
        {"compute_units", "max_work_group", "local_bytes", "private_bytes", "vector_bytes", "half"}
    ),
    target_options=_opencl_target_options,
    half="cl_khr_fp16",
    described="gpu",
    # PoCL takes 20 s of a PC's core for MobileNet; a board's core is ten times slower.
    compile_s=300.0,
    # The largest Midgard has 12 cores with 20 operations per cycle; GPUs of phones reach about 5e12.
    peaks={"mali-t": 3e11, "mali": 1e13, "qualcomm": 1e13},
    facts=_opencl_facts,
    failures={"build": "build", "registers": "registers", "work-group": "work group"},
    nodes=("/dev/mali0", "/dev/dri/renderD*"),
    language=OPENCL_C,
    code={"model": "toolchain.testbeds.mali.model:MODELS"},
    test_bed=TestBed(
        help=("A container with an OpenCL driver that computes on its CPU (PoCL): a slow test bed, no GPU."),
        board_class="rk3399",
        elsewhere="apt-get install ocl-icd-libopencl1 pocl-opencl-icd: OpenCL for `local`",
    ),
)


# The row of CUDA: NVIDIA's GPUs, for which kernels are compiled to machine code when a library is built.


def _cuda_target_options(device: Device) -> dict[str, object]:
    from toolchain.devices.cuda_architectures import architectures_for

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


def _cuda_facts() -> type[DeviceFacts]:
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
    target_options=_cuda_target_options,
    half="instructions for it",
    described="gpu",
    # Machine code needs no compiler on the board; loading it takes less than a second.
    compile_s=30.0,
    # As in TVM's tutorials for such GPUs: their clocks rise and fall within a tenth of a second.
    sample_ms=300,
    # Float32 without tensor cores, by NVIDIA's data sheets: H100 SXM 6.7e13, A100 2e13, Orin 5e12.
    peaks={"orin": 6e12},
    facts=_cuda_facts,
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
        driver="toolchain.testbeds.cuda.driver:DRIVER_FILE",
        entry={"arch": EMULATED, "name": EMULATED},
    ),
)


CPU = DeviceKind(name="cpu", quantizers=("mse", "minmax", "percentile", "power-of-two", "global-scale"))

OWN = {row.name: row for row in (CPU, OPENCL, CUDA, VTA)}
"""Kinds of this package, by name; a plugin cannot replace them."""

# Drivers report units and clocks, but not the width of the units. The fastest device today reaches 1.6e14
# FLOP/s without matrix units, which no kind here exceeds.
_FASTEST = 2e14


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, those of this package first; no plugin is loaded."""
    return (*OWN, *sorted({plugin.kind for plugin in plugins()} - set(OWN)))


def find_kind(name: str) -> DeviceKind | None:
    """Return the row of a kind, or None if there is no such kind.

    Raises
    ------
    MissingError
        The kind belongs to a plugin that cannot be loaded.
    """
    return OWN.get(name) or load_plugin(name)


def kind_of(device: str) -> DeviceKind:
    """Return the row of a device's kind; an empty row for an unknown kind, which a foreign bundle may have.

    Parameters
    ----------
    device
        A kind, or a kind with a name: `opencl:mali-t860`.

    Raises
    ------
    MissingError
        The kind belongs to a plugin that cannot be loaded.
    """
    name = device.partition(":")[0]
    return find_kind(name) or DeviceKind(name=name)


def kernel_kinds() -> tuple[str, ...]:
    """Return the names of this package's kinds that run kernels from source."""
    return tuple(row.name for row in OWN.values() if row.language)


def with_kernels() -> str:
    """Return a hint with the options that generate kernels."""
    return "add " + " or ".join(f"--device {kind}" for kind in kernel_kinds())


def peak_flops(device: str) -> float | None:
    """Return the peak FLOP/s of a device; None for a CPU, whose peak follows from its cores.

    Parameters
    ----------
    device
        Device as in `RecordKey`: empty for a CPU.
    """
    if not device:
        return None
    return kind_of(device).peak(device.partition(":")[2]) or _FASTEST


# Tables of code by kind of device, to which plugins add entries.

Code = TypeVar("Code")


class KindTable(Generic[Code]):
    """The code of one seam for each kind of device that has such code.

    Parameters
    ----------
    seam
        Name of the seam; a plugin's `DeviceKind.code` uses it as a key.
    own
        The code of this package, by kind.
    """

    def __init__(self, seam: Seam, own: Mapping[str, Code]) -> None:
        self._seam: Seam = seam
        self._own = own

    def find(self, kind: str) -> Code | None:
        """Return the code for a kind of device, or None if it has none.

        Raises
        ------
        MissingError
            The code belongs to a plugin that cannot be loaded.
        """
        if kind in self._own:
            return self._own[kind]
        row = find_kind(kind)
        reference = row.code.get(self._seam) if row else None
        return None if reference is None else _load_code(kind, self._seam, reference)


def driver_file(kind: str) -> DriverFile | None:
    """Return the driver of a kind's test bed if it is one file; None if not, or without a test bed.

    Raises
    ------
    MissingError
        The driver belongs to a plugin that cannot be loaded.
    """
    bed = kind_of(kind).test_bed
    return _load_code(kind, "driver", bed.driver) if bed and bed.driver else None


def _load_code(kind: str, what: str, reference: str) -> Any:
    try:
        return EntryPoint(kind, reference, what).load()
    except FAULTS as error:
        raise MissingError(
            f"the plugin for devices of kind {kind}: its {what}, {reference}, cannot be loaded: "
            f"{first_line(error)}",
            "update or uninstall the plugin",
        ) from error

"""Code that a library holds for NVIDIA's GPUs: that which fits is taken, what is damaged is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime import cuda_network
from tests.runtime.cuda_device import FAILED, USAGE, Cuda, device_of, names
from tests.runtime.cuda_network import Damage
from tests.runtime.test_opencl import PROGRAMS, Device
from toolchain.architectures.table import LINUX
from toolchain.lowering.dialects.source import MachineCode
from toolchain.testbeds.cuda import compile_emulated

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled


@pytest.fixture(scope="module", params=PROGRAMS)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    return device_of(request, tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def cuda(device: Device, tmp_path: Path) -> Cuda:
    return Cuda(device, tmp_path)


@pytest.mark.parametrize(
    ("architectures", "environment", "says"),
    [
        (
            (80, 90),
            {"EDGE_CUDA_CAPABILITY": "12.0"},
            "(sm_120), driver for CUDA 13.0: it has code for sm_80, sm_90; ",
        ),
        (
            (90,),
            {"EDGE_CUDA_CAPABILITY": "8.6"},
            "(sm_86), driver for CUDA 13.0: it has code for sm_90; build it with",
        ),
        ((87,), {"EDGE_CUDA_CAPABILITY": "8.6"}, "it has code for sm_87; build it with --arch sm_86"),
        ((87,), {"EDGE_CUDA_CAPABILITY": "8.9"}, "it has code for sm_87; build it with --arch sm_89"),
        ((80, 86), {"EDGE_CUDA_CAPABILITY": "8.7"}, "code for sm_80, sm_86; build it with --arch sm_87"),
        ((80,), {"EDGE_CUDA_CAPABILITY": "7.5"}, "code for sm_80; GPUs before sm_80 are not supported"),
        (
            (90,),
            {},
            "emulated (emulated), driver for CUDA 13.0: it has code for sm_90; build it with --arch emulated",
        ),
        ((), {"EDGE_CUDA_CAPABILITY": "9.0"}, "it has code for none"),
        (
            (90,),
            {"EDGE_CUDA_CAPABILITY": "9.0", "EDGE_CUDA_VERSION": "12080"},
            "compiled by CUDA 13.0, which is newer than emulated (sm_90), driver for CUDA 12.8: install a "
            "driver for CUDA 13, or build the library with the compiler of CUDA 12",
        ),
    ],
)
def test_incompatible_gpu_code_is_refused_before_loading(
    cuda: Cuda, architectures: tuple[int, ...], environment: dict[str, str], says: str
) -> None:
    codes = [MachineCode(entry, cuda_network.COMPILER, cubin()) for entry in architectures]
    arguments = cuda.network(cuda_network.plus_one(1024, 16, code=codes))
    code, answer, log = cuda("bench", *arguments, **environment)
    assert (code, answer["error"]["kind"]) == (USAGE, "device")
    assert says in answer["error"]["message"]
    assert names(log) == [] and "cuDevicePrimaryCtxRetain" not in [entry["call"] for entry in log]


@pytest.mark.parametrize(
    ("capability", "version", "says"),
    [
        ("9.0", "13000", "code for sm_90 of plus_one_kernel, compiled by CUDA 13.0; "),
        ("8.9", "13010", "code for sm_86 of plus_one_kernel, compiled by CUDA 13.0; "),
        ("8.7", "13010", "code for sm_87 of plus_one_kernel, compiled by CUDA 13.0; "),
        (
            "8.0",
            "13000",
            "code for sm_80 of plus_one_kernel, compiled by CUDA 13.1, which is newer than the driver",
        ),
    ],
)
def test_newest_fitting_code_is_passed_to_the_driver(
    cuda: Cuda, capability: str, version: str, says: str
) -> None:
    compiled = ((80, 13010), (86, 13000), (87, 13000), (90, 13000))
    codes = [MachineCode(arch, compiler, cubin()) for arch, compiler in compiled]
    library = cuda_network.plus_one(1024, 16, code=codes)
    code, error = cuda.fails(library, EDGE_CUDA_CAPABILITY=capability, EDGE_CUDA_VERSION=version)
    assert (
        code == FAILED
        and "cuModuleLoadData says CUDA_ERROR_NO_BINARY_FOR_GPU (209): " + says in error["message"]
    )


def cubin() -> bytes:
    """Return what looks like machine code of a GPU: an ELF file of NVIDIA's with one, empty section."""
    import struct

    machine, header, section = 190, 64, 64
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    fields = (2, machine, 1, 0, 0, header, 0, header, 0, 0, section, 1, 0)
    return identity + struct.pack("<HHIQQQIHHHHHH", *fields) + bytes(section)


def with_number(at: int, value: int, size: int = 4) -> Damage:
    return lambda data: data[:at] + value.to_bytes(size, "little") + data[at + size :]


# "EDGECUDA", version, units, kernels, length of the first name, the name, codes, architecture, compiler, size
AT_VERSION, AT_UNITS, AT_KERNELS, AT_LENGTH, NAME = 8, 12, 16, 20, len("plus_one_kernel")
AT_CODES = AT_LENGTH + 4 + NAME
AT_SIZE, AT_CODE = AT_CODES + 12, AT_CODES + 20


def twice(data: bytes) -> bytes:
    """Return a container whose unit is there twice."""
    unit = data[AT_KERNELS:-4]
    return data[:AT_UNITS] + (2).to_bytes(4, "little") + unit + unit + data[-4:]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data[:-1], "is damaged: it ends too early; was it all copied?"),
        (lambda data: data[: AT_CODE + 100], "is damaged: it ends too early"),
        (lambda data: data[:AT_UNITS], "is damaged: it ends too early"),
        (lambda data: data + b"more", "is damaged: it goes on behind its end"),
        (lambda data: b"EDGECUDB" + data[8:], "holds CUDA source, which nothing here compiles"),
        (with_number(AT_VERSION, 2), "has format 2, this edge-rt reads format 1"),
        (with_number(AT_UNITS, 2**32 - 1), "is damaged: it ends too early"),
        (with_number(AT_KERNELS, 2**32 - 1), "is damaged: a kernel's name is none"),
        (with_number(AT_LENGTH, 2**32 - 1), "is damaged: it ends too early"),
        (with_number(AT_CODES, 2**32 - 1), "is damaged: "),
        (with_number(AT_SIZE, 2**64 - 1, 8), "is damaged: it ends too early"),
        (with_number(AT_SIZE, 2**63, 8), "is damaged: it ends too early"),
        (with_number(AT_SIZE, 100, 8), "is damaged: its code for emulated is cut or no code"),
        (with_number(AT_CODE, 0), "is damaged: its code for emulated is cut or no code"),
        (
            lambda data: data.replace(b"plus_one_kernel", b"plus_two_kernel", 1),
            "it has no code of kernel plus",
        ),
        (twice, "is damaged: it has kernel plus_one_kernel twice"),
    ],
)
def test_refuses_damaged_gpu_code(cuda: Cuda, damage: Damage, says: str) -> None:
    code, error = cuda.fails(cuda_network.plus_one(1024, 16, damage=damage))
    assert code == FAILED and says in error["message"], error


def test_truncated_gpu_code_is_refused_before_loading(cuda: Cuda) -> None:
    complete = compile_emulated('extern "C" __global__ void plus_one_kernel(float* x) {}', LINUX["x86_64"])
    for size in (0, 63, 64, len(complete) // 2, len(complete) - 1):
        cut = [MachineCode(0, cuda_network.COMPILER, complete[:size])]
        arguments = cuda.network(cuda_network.plus_one(1024, 16, code=cut))
        code, answer, log = cuda("bench", *arguments)
        assert code == FAILED and "its code for emulated is cut or no code" in answer["error"]["message"]
        assert "cuModuleLoadData" not in names(log)

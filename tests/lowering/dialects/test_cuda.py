"""CUDA C++ becomes machine code without a GPU, and libraries embed it for each architecture."""

from __future__ import annotations

import importlib.util
import re
import struct
import sys
from importlib.machinery import ModuleSpec
from io import BytesIO
from pathlib import Path

import pytest
import tvm
from elftools.elf.elffile import ELFFile

from tests.runtime.opencl_network import _plus_one
from toolchain.backends.table import backend_for
from toolchain.building.chosen import chosen
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.lowering.dialects import nvrtc
from toolchain.lowering.dialects.cuda import CUDA, MAGIC, VERSION, container, joined
from toolchain.lowering.dialects.nvrtc import compile_cuda
from toolchain.lowering.dialects.source import KernelSource, KernelUnit, MachineCode
from toolchain.lowering.kernels.compile import compile_kernel
from toolchain.lowering.kernels.device import device_object
from toolchain.lowering.kernels.part import LibraryPart
from toolchain.lowering.kernels.pickling import pickled
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.tasks.options import CodeOptions

TWO = """#define TWO 2
extern "C" __global__ void first(float* x);
extern "C" __global__ void __launch_bounds__(32) second(float* x);
extern "C" __global__ void first(float* x) {
  x[0] = TWO;
}

extern "C" __global__ void __launch_bounds__(32) second(float* x) {
  x[1] = TWO;
}
"""


def target(*architectures: str) -> tvm.target.Target:
    options = {"kind": "cuda", "arch": "sm_80", "keys": ["cuda", "gpu", *architectures]}
    return tvm.target.Target(options, host={"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu"})


def test_a_source_is_cut_into_kernels_and_joined_again() -> None:
    sections = CUDA.sections(TWO)
    assert list(sections) == ["first", "second"]
    assert all(text.startswith("#define TWO 2\n") for text in sections.values())
    assert "second" not in sections["first"] and "first" not in sections["second"]
    together = joined(sections.values())
    assert together.count("#define") == 1 and together.count("__global__") == 2


def test_the_container_has_all_that_units_have() -> None:
    kernels = tuple(KernelSource(name, (), (), "") for name in ("a", "bc"))
    codes = (MachineCode(80, 13000, b"code"), MachineCode(90, 13000, b"longer code"))
    data = container([KernelUnit(kernels, codes), KernelUnit()], "// a: conv\n")
    expected = MAGIC + struct.pack("<II", VERSION, 2)
    expected += struct.pack("<I", 2) + struct.pack("<I", 1) + b"a" + struct.pack("<I", 2) + b"bc"
    expected += struct.pack("<I", 2)
    expected += (
        struct.pack("<IIQ", 80, 13000, 4) + b"code" + struct.pack("<IIQ", 90, 13000, 11) + b"longer code"
    )
    expected += struct.pack("<II", 0, 0) + struct.pack("<I", 11) + b"// a: conv\n"
    assert data == expected


def test_a_function_is_compiled_for_each_architecture() -> None:
    """The container stands in what a library embeds, and is found there whole."""
    func = _plus_one(64, 16)["main"]
    fat = target("sm_80", "sm_90")
    part = LibraryPart.of(compile_kernel(pickled(Scheduled(func)), str(fat), "kernel_1"))
    assert [code.architecture for code in part.unit.codes] == [80, 90]
    for code in part.unit.codes:
        assert code.compiler >= 13000 and code.compiler % 10 == 0
        file = ELFFile(BytesIO(code.code))
        assert file["e_machine"] == "EM_CUDA"
        assert file.get_section_by_name(".text.kernel_1_kernel") is not None
    assert LibraryPart.of(part.to_bytes()) == part
    assert container([part.unit], "") in device_object([part.unit], fat)
    assert tvm.get_global_func(CUDA.hook, allow_missing=True) is None, "TVM is left as it was"


@pytest.mark.slow
@pytest.mark.parametrize("network", ["mobilenet", "squeezenet_v1.1"])
def test_float16_compiles(network: str) -> None:
    """Vectors of four halves, their bounds that keep a NaN, and softmax in float32."""
    options = CodeOptions(device="cuda", arch="sm_90", dtype="float16")
    backend = backend_for(load_profile("cuda"), options)
    with backend.lower(load_model(f"zoo:{network}", ModelOptions()), backend.target()) as lowered:
        for task in lowered.tasks:
            for each in chosen(lowered, task, None, "cuda").kernels(model=False).kernels:
                (needed,) = each.kernel.resources
                assert needed.registers > 0 and each.kernel.vector_width <= 4


@pytest.mark.parametrize(
    ("source", "architecture", "said"),
    [
        ('extern "C" __global__ void f() { g(); }', 80, 'for sm_80: identifier "g" is undefined'),
        (
            'extern "C" __global__ void f(int* x) { __shared__ int y[20000]; y[*x] = 1; *x = y[2]; }',
            80,
            "for sm_80: Entry function 'f' uses too much shared data",
        ),
    ],
)
def test_what_nvrtc_refuses_is_told(source: str, architecture: int, said: str) -> None:
    with pytest.raises(ToolchainError, match="cannot compile a kernel") as caught:
        compile_cuda(source, architecture)
    assert said in caught.value.message


def test_an_installation_that_lacks_a_part_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvrtc, "_headers", lambda: tmp_path)
    with pytest.raises(MissingError, match=r"not installed as a whole: it lacks cuda_fp16\.h") as caught:
        compile_cuda("#include <cuda_fp16.h>", 80)
    assert "pip install" in str(caught.value.hint)
    log = "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n"
    assert nvrtc._rejected(log, 13000, 80).message.endswith("it lacks libnvrtc-builtins.so.13.0")


def test_an_architecture_that_nvrtc_does_not_know_is_refused_with_those_it_knows() -> None:
    with pytest.raises(UsageError, match=r"NVRTC 13\.\d does not know the architecture sm_199") as caught:
        compile_cuda('extern "C" __global__ void f() {}', 199)
    assert caught.value.hint.startswith("it knows: sm_75, sm_80, ") and "sm_120" in caught.value.hint


def test_loops_over_arrays_that_no_registers_hold_stay_loops() -> None:
    source = """extern "C" __global__ void f(float* x) {{
  float kept[{}];
  for (int i = 0; i < 400; ++i) {{
    kept[i % 8] = x[i];
  }}
  #pragma unroll
  for (int i = 0; i < 400; ++i) {{
  }}
  for (int i = 0; i < 8; ++i) {{
  }}
}}"""
    assert CUDA.finished(source.format(255)) == source.format(255)
    finished = CUDA.finished(source.format(400))
    assert finished.count("#pragma unroll 1\n  for (int i = 0; i < 400; ++i)") == 1
    assert finished.count("#pragma") == 2


def test_without_nvrtc_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc._loaded.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(MissingError, match="not installed") as caught:
        compile_cuda("", 80)
    assert "make cuda" in str(caught.value.hint)
    nvrtc._loaded.cache_clear()


@pytest.mark.parametrize(("version", "folder"), [(13000, "cu13"), (12090, "cuda_runtime")])
def test_headers_are_those_of_the_compilers_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, folder: str
) -> None:
    for each in ("cu13", "cuda_runtime", "cu14"):
        (tmp_path / "nvidia" / each / "include").mkdir(parents=True)
    spec = ModuleSpec("nvidia", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "nvidia")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    monkeypatch.setattr(nvrtc, "_loaded", lambda: (None, version))
    assert nvrtc._headers.__wrapped__() == tmp_path / "nvidia" / folder / "include"


def test_a_target_says_the_compilers_of_its_code() -> None:
    keys = ["cuda", "gpu", "emulated", "sm_80", "sm_90"]
    host = {"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu"}
    assert CUDA.compilers is not None
    found = CUDA.compilers(tvm.target.Target({"kind": "cuda", "keys": keys}, host=host))
    assert re.fullmatch(r"NVRTC 13\.\d --std=c\+\+17 --ptxas-options=-v, ziglang \d+\.\d+\.\d+", found)

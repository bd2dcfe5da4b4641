"""Functions of a network: which are taken from the cache, and what is said of one that cannot be compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import tvm
from tvm import tirx

from tests.runtime.opencl_network import target
from toolchain.errors import MissingError, ToolchainError
from toolchain.lowering.dialects import cuda
from toolchain.lowering.kernels.compilers import FunctionCompilers
from toolchain.lowering.kernels.kernels import Kernels
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.lowering.kernels.store import ObjectStore


def test_a_function_that_does_not_compile_has_its_name_in_the_network(tmp_path: Path) -> None:
    bad = tirx.PrimFunc([], tirx.Evaluate(tirx.call_intrin("int32", "tirx.mma_fill", 1)))
    host = tvm.target.Target(str(target("x86_64").host))
    with FunctionCompilers(1, str(host)) as compilers:
        kernels = Kernels(host, compilers, ObjectStore(), lambda _step: None)
        module = tvm.IRModule({"fused_elu_add": kernels.submit(Scheduled(bad))})
        with pytest.raises(
            ToolchainError, match="TVM cannot compile function fused_elu_add of the network: "
        ):
            kernels.export(module, tmp_path)


CUDA = tvm.target.Target(
    {"kind": "cuda", "arch": "sm_90", "keys": ["cuda", "gpu", "sm_90"]},
    host={"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu"},
)


def symbol_by(compiler: Callable[[], str], patch: pytest.MonkeyPatch) -> str:
    """Return the name of a function in the cache, given what tells the version of NVRTC."""
    patch.setattr(cuda, "nvrtc_version", compiler)
    with FunctionCompilers(1, str(CUDA)) as compilers:
        kernels = Kernels(CUDA, compilers, ObjectStore(), lambda _step: None)
        nothing = tirx.PrimFunc([], tirx.Evaluate(0))
        return str(kernels.submit(Scheduled(nothing)).attrs["toolchain.recipe"])


def test_code_of_another_compiler_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise MissingError("no NVRTC", "install it")

    found = [symbol_by(partial(str, each), monkeypatch) for each in ("12.9", "13.0", "12.9")]
    assert found[0] == found[2] != found[1]
    assert symbol_by(missing, monkeypatch) not in found

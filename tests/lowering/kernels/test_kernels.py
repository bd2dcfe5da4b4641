"""What is said of a function that cannot be compiled: the network's name for it."""

from __future__ import annotations

import pytest
import tvm
from tvm import tirx

from tests.runtime.opencl_network import target
from toolchain.errors import ToolchainError
from toolchain.lowering.kernels.compilers import FunctionCompilers
from toolchain.lowering.kernels.kernels import Kernels
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.lowering.kernels.store import ObjectStore


def test_it_is_called_as_the_network_calls_it() -> None:
    bad = tirx.PrimFunc([], tirx.Evaluate(tirx.call_intrin("int32", "tirx.mma_fill", 1)))
    host = tvm.target.Target(str(target("x86_64").host))
    with FunctionCompilers(1, str(host)) as compilers:
        kernels = Kernels(host, compilers, ObjectStore(), lambda _step: None)
        module = tvm.IRModule({"fused_elu_add": kernels.submit(Scheduled(bad))})
        with pytest.raises(
            ToolchainError, match="TVM cannot compile function fused_elu_add of the network: "
        ):
            kernels._parts(kernels._submit_all(module))

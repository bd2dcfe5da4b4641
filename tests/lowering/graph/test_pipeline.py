from __future__ import annotations

import signal
from typing import Any

import pytest
import tvm
from tvm import relax

from toolchain.errors import ToolchainError
from toolchain.lowering.graph import pipeline


def _lower(run: Any) -> None:
    def act(module: tvm.IRModule, _: Any) -> tvm.IRModule:
        run()
        return module

    one = tvm.transform.module_pass(act, opt_level=0)
    pipeline._run([one], tvm.IRModule(), tvm.target.Target("llvm"))


def test_an_interrupt_while_tvm_works_stays_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        _lower(lambda: signal.raise_signal(signal.SIGINT))


@pytest.mark.parametrize("kind", [tvm.error.InternalError, ValueError, TypeError])
def test_what_tvm_refuses_is_said(kind: type[Exception]) -> None:
    def refuse() -> None:
        raise kind("no such operator")

    with pytest.raises(ToolchainError, match=r"TVM cannot lower the network: .*no such operator"):
        _lower(refuse)


def test_a_reshape_to_the_shape_that_there_is_leaves_nothing() -> None:
    x = relax.Var("x", relax.TensorType((1, 8, 20), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            same = builder.emit(relax.op.reshape(builder.emit(relax.op.exp(x)), (1, 8, 20)))
            result = builder.emit_output(relax.op.nn.softmax(same, axis=-1))
        builder.emit_func_output(result)
    text = str(pipeline.fuse(builder.finalize(), tvm.target.Target("llvm"))["main"].script())
    assert "reshape" not in text

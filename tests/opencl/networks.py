"""Networks on edge-rt with Oclgrind as its driver: results, accesses, data races.

`python -m tests.opencl.networks NAME...` tries operators of tests/backends/packed/networks.py one by one.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.backends.packed.computed import loaded
from tests.backends.packed.single import Layer
from tests.opencl.oclgrind import DRIVER, expect_oclgrind
from tests.whole import error_of_code
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.models.load import Model
from toolchain.tasks.options import CodeOptions


@contextmanager
def simulated(patch: pytest.MonkeyPatch) -> Iterator[tuple[Board, Path]]:
    """Yield the board `local` whose driver is Oclgrind, and the file of its complaints."""
    expect_oclgrind()
    with tempfile.TemporaryDirectory(prefix="oclgrind-") as name:
        folder = Path(name)
        (folder / "libOpenCL.so.1").symlink_to(DRIVER)
        complaints = folder / "complaints"
        plain = LocalTransport._environment()
        words = {
            "LD_LIBRARY_PATH": str(folder),
            "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_LOG": str(complaints),
        }
        patch.setattr(LocalTransport, "_environment", staticmethod(lambda: plain | words))
        yield local_board(), complaints


def error_of(model: Model, board: Board, folder: Path, winograd: str = "auto") -> float:
    """Build a network for OpenCL and run it; return the largest error, relative to the output's largest."""
    return error_of_code(model, board, folder, CodeOptions(device="opencl", winograd=winograd))


def side_by_side(models: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """Return one network of them all."""
    first, *others = (onnx.compose.add_prefix(model, f"n{number}_") for number, model in enumerate(models))
    for other in others:
        first = onnx.compose.merge_models(first, other, io_map=[])
        del first.opset_import[1:]
    return first


def layer(of: Layer, *, after: int = 8) -> onnx.ModelProto:
    """Return a convolution with bias and ReLU; behind it one of 3x3 that reads zeros around its output."""
    random = np.random.default_rng(0)
    high, wide = of.kernel if isinstance(of.kernel, tuple) else (of.kernel, of.kernel)
    pads = list(of.pad) if isinstance(of.pad, tuple) else [of.pad, of.pad]

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("f4")

    constants = {
        "w": weights(of.co, of.ci // of.groups, high, wide),
        "b": weights(of.co, 1)[:, 0],
        "v": weights(after, of.co, 3, 3),
    }
    shape = {"strides": [of.stride] * 2, "dilations": [of.dilation] * 2, "group": of.groups}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=pads * 2, **shape),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["y"], pads=[1] * 4),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (of.batch, of.ci, *of.size))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def main(names: Sequence[str]) -> None:
    """Try operators by themselves, packed and plain."""
    from tests.backends.packed.networks import CASES

    patch = pytest.MonkeyPatch()
    with simulated(patch) as (board, complaints):
        for case in CASES:
            for packed in (True, False):
                if names and not any(name in case.name for name in names):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        error = f"{error_of(loaded(case.model(packed=packed)), board, Path(folder)):.1e}"
                    except Exception as problem:  # every operator is tried
                        error = f"{type(problem).__name__}: {problem}"[:300]
                said = complaints.read_text() if complaints.exists() else ""
                complaints.unlink(missing_ok=True)
                print(case.name, "packed" if packed else "plain", error, said[:600], flush=True)
    patch.undo()


if __name__ == "__main__":
    main(sys.argv[1:])

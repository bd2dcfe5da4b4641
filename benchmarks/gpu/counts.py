"""What kernels of convolutions execute, counted by Oclgrind, beside the least that the arithmetic needs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.opencl.oclgrind import Counts, simulate
from toolchain.backends.table import backend_for
from toolchain.devices.kernel import Kernel
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.tasks.candidate import DeviceCode
from toolchain.tasks.options import CodeOptions

BOARD = "rk3399"
_LANES = 4
_OPSET, _IR_VERSION = 17, 8


@dataclass(frozen=True)
class Convolution:
    """A convolution with ReLU; of smaller images than the networks', so that it is simulated in seconds."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    extent: int
    stride: int = 1
    groups: int = 1

    @property
    def out_extent(self) -> int:
        """Rows of the output, and columns."""
        return -(-self.extent // self.stride)

    @property
    def macs(self) -> int:
        """Multiply-accumulates, padding included."""
        out = self.out_extent
        return out * out * self.outputs * self.inputs // self.groups * self.kernel**2


LAYERS = (
    Convolution("resnet-18, 3x3", 64, 64, 3, 14),
    Convolution("resnet-18, 3x3, stride 2", 64, 128, 3, 14, 2),
    Convolution("resnet-18, 3x3", 256, 64, 3, 7),
    Convolution("mobilenet, 1x1", 64, 128, 1, 14),
    Convolution("mobilenet, 1x1", 512, 512, 1, 7),
    Convolution("mobilenet, depthwise 3x3", 64, 64, 3, 14, 1, 64),
)


def counts() -> dict[str, Any]:
    """Return what the default code of each layer executes."""
    return {"board": BOARD, "layers": [_counted(layer) for layer in LAYERS]}


def _counted(layer: Convolution) -> dict[str, Any]:
    kernels = _kernels(layer)
    counted = [_simulated(kernel) for kernel in kernels]
    fmas = sum(each.fmas(lanes) * lanes for each in counted for lanes in (2, 3, 4, 8, 16)) / _LANES
    least = layer.macs / _LANES
    return {
        "layer": layer.name,
        "channels": [layer.inputs, layer.outputs],
        "extent": layer.extent,
        "kernels": len(kernels),
        "group": kernels[0].group,
        "vector_fmas": round(fmas),
        "over_the_least": round(fmas / least, 4),
        "global_vector_loads_per_fma": round(sum(each.global_vector_loads for each in counted) / fmas, 3),
        "scalar_loads_per_fma": round(sum(each.executed.get("load global", 0) for each in counted) / fmas, 3),
        "private_loads_per_fma": round(sum(each.private_loads for each in counted) / fmas, 3),
        "barriers": sum(each.barriers for each in counted),
        "bytes_of_sums": max(kernel.private_bytes for kernel in kernels),
    }


def _kernels(layer: Convolution) -> list[Kernel]:
    backend = backend_for(load_profile(BOARD), CodeOptions(device="opencl", winograd="off"))
    with tempfile.TemporaryDirectory(prefix="edge-benchmark-") as folder:
        file = Path(folder) / "layer.onnx"
        onnx.save(model_of(layer), file)
        with backend.lower(load_model(str(file), ModelOptions()), backend.target()) as network:
            (task,) = network.tasks
            space = network.space(task)
            code = space.candidate(space.default()).code
            assert isinstance(code, DeviceCode)  # noqa: S101 - this is for a GPU
            return code.launches()


def _simulated(kernel: Kernel) -> Counts:
    random = np.random.default_rng(0)
    memory = [random.standard_normal(max(size // 4, 1), "float32") for size in kernel.arguments]
    return simulate(kernel.source, kernel.name, kernel.groups, kernel.group, memory).counts


def model_of(layer: Convolution) -> onnx.ModelProto:
    shape = (layer.outputs, layer.inputs // layer.groups, layer.kernel, layer.kernel)
    weight = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    pads, strides = [layer.kernel // 2] * 4, [layer.stride] * 2
    image = [1, layer.inputs, layer.extent, layer.extent]
    made = [1, layer.outputs, layer.out_extent, layer.out_extent]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=pads, strides=strides, group=layer.groups),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, made)],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)

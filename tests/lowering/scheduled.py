"""Functions to schedule, such as fusing a network leaves them; and running them on this host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import te, tirx, topi

from toolchain.lowering.schedules.rows import default_schedule


@dataclass(frozen=True)
class Layer:
    """One operator with its shape and what is fused behind it.

    `act` is one of none, relu, add (a bias), residual (another input of the output's shape).
    """

    kind: str
    batch: int = 1
    channels: int = 4
    outputs: int = 8
    size: int = 6
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    act: str = "none"

    def function(self) -> tirx.PrimFunc:
        """Return the fused, unscheduled function."""
        inputs, out = KINDS[self.kind](self)
        if self.act == "relu":
            out = topi.nn.relu(out)
        elif self.act == "add":
            bias = te.placeholder((1, out.shape[1], *[1] * (len(out.shape) - 2)), name="bias")
            inputs, out = [*inputs, bias], topi.nn.relu(topi.add(out, bias))
        elif self.act == "residual":
            other = te.placeholder(out.shape, name="other")
            inputs, out = [*inputs, other], topi.add(topi.multiply(out, other), other)
        return te.create_prim_func([*inputs, out])


Tensors = tuple[list[te.Tensor], te.Tensor]


def data(layer: Layer) -> te.Tensor:
    return te.placeholder((layer.batch, layer.channels, layer.size, layer.size), name="data")


def conv(layer: Layer) -> Tensors:
    x = data(layer)
    w = te.placeholder((layer.outputs, layer.channels, layer.kernel, layer.kernel), name="weight")
    return [x, w], topi.nn.conv2d_nchw(x, w, layer.stride, layer.padding, 1)


def grouped(layer: Layer) -> Tensors:
    x = data(layer)
    w = te.placeholder((layer.outputs, layer.channels // 2, layer.kernel, layer.kernel), name="weight")
    return [x, w], topi.nn.group_conv2d_nchw(x, w, layer.stride, layer.padding, 1, 2)


def depthwise(layer: Layer) -> Tensors:
    x = data(layer)
    w = te.placeholder((layer.channels, 1, layer.kernel, layer.kernel), name="weight")
    return [x, w], topi.nn.depthwise_conv2d_nchw(x, w, layer.stride, layer.padding, 1)


def pool(kind: str) -> Callable[[Layer], Tensors]:
    def made(layer: Layer) -> Tensors:
        x = data(layer)
        pads = [layer.padding] * 4
        return [x], topi.nn.pool2d(x, [3, 3], [layer.stride] * 2, [1, 1], pads, kind)

    return made


def mean(layer: Layer) -> Tensors:
    x = data(layer)
    return [x], topi.divide(topi.sum(x, axis=[2, 3], keepdims=True), float(layer.size**2))


def mean_all(layer: Layer) -> Tensors:
    x = data(layer)
    return [x], topi.sum(x, axis=[1, 2, 3], keepdims=True)


def matmul(layer: Layer) -> Tensors:
    a = te.placeholder((layer.batch, layer.channels * layer.size), name="a")
    b = te.placeholder((layer.outputs * layer.size, layer.channels * layer.size), name="b")
    return [a, b], topi.matmul(a, b, transp_b=True)


def softmax(layer: Layer) -> Tensors:
    x = te.placeholder((layer.batch, layer.channels * layer.size), name="x")
    return [x], topi.nn.softmax(x, axis=1)


def elementwise(layer: Layer) -> Tensors:
    x = data(layer)
    return [x], topi.exp(topi.negative(x))


def transpose(layer: Layer) -> Tensors:
    x = data(layer)
    return [x], topi.transpose(topi.nn.relu(x), [0, 2, 3, 1])


def batch_matmul(layer: Layer) -> Tensors:
    a = te.placeholder((layer.batch, layer.size, layer.channels), name="a")
    b = te.placeholder((layer.batch, layer.outputs, layer.channels), name="b")
    return [a, b], topi.nn.batch_matmul(a, b)


KINDS: dict[str, Callable[[Layer], Tensors]] = {
    "conv": conv,
    "grouped": grouped,
    "depthwise": depthwise,
    "max_pool": pool("max"),
    "avg_pool": pool("avg"),
    "mean": mean,
    "mean_all": mean_all,
    "matmul": matmul,
    "softmax": softmax,
    "elementwise": elementwise,
    "transpose": transpose,
    "batch_matmul": batch_matmul,
}


def ran(*funcs: tirx.PrimFunc) -> list[np.ndarray]:
    """Compile functions of the same parameters for this host; return what each has for the same inputs."""
    named = {f"f{place}": func for place, func in enumerate(funcs)}
    module = tvm.IRModule({name: func.with_attr("global_symbol", name) for name, func in named.items()})
    library = tvm.compile(module, target="llvm")
    random = np.random.default_rng(0)
    shapes = [[int(extent) for extent in parameter.shape] for parameter in funcs[0].params]
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes[:-1]]
    outputs = []
    for name in named:
        out = tvm.runtime.tensor(np.full(shapes[-1], np.nan, np.float32))
        library[name](*[tvm.runtime.tensor(array) for array in inputs], out)
        outputs.append(out.numpy())
    return outputs


def by_rows(fused: tvm.IRModule) -> tvm.IRModule:
    """Return a fused network whose functions have their default schedule."""
    functions = {
        variable: default_schedule(func) if isinstance(func, tirx.PrimFunc) else func
        for variable, func in fused.functions.items()
    }
    return tvm.IRModule(functions, attrs=fused.attrs)

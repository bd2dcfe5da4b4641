"""Layers that move a window over an image: convolutions and pools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

from tests.backends.packed.sketch import Shape, Sketch

Triple = tuple[int, int, int]  # per axis; the first of a network's axes are used


@dataclass(frozen=True)
class Window:
    """Where a kernel goes along each axis.

    Attributes
    ----------
    pads
        Before and after each axis; or ONNX's `auto_pad`.
    """

    kernel: Triple = (1, 1, 1)
    strides: Triple = (1, 1, 1)
    dilations: Triple = (1, 1, 1)
    pads: tuple[tuple[int, int], ...] | str = ((0, 0),) * 3

    def fitted(self, size: Shape, dilated: bool = True) -> tuple[dict[str, Any], Shape]:
        """Return attributes that are legal for an image of this size, and the output's size."""
        kernel, dilations, out = [], [], []
        for axis, extent in enumerate(size):
            around = 0 if isinstance(self.pads, str) else sum(self.pads[axis])
            room = extent + around
            taps = min(self.kernel[axis], room)
            dilation = self.dilations[axis] if dilated and (taps - 1) * self.dilations[axis] < room else 1
            kernel.append(taps)
            dilations.append(dilation)
            if isinstance(self.pads, str) and self.pads != "VALID":
                out.append(-(-extent // self.strides[axis]))
            else:
                out.append((room - dilation * (taps - 1) - 1) // self.strides[axis] + 1)
        rank = len(size)
        found: dict[str, Any] = {"kernel_shape": kernel, "strides": list(self.strides[:rank])}
        if dilated:
            found["dilations"] = dilations
        if isinstance(self.pads, str):
            found["auto_pad"] = self.pads
        else:
            found["pads"] = [before for before, _ in self.pads[:rank]] + [
                after for _, after in self.pads[:rank]
            ]
        return found, tuple(out)


@dataclass(frozen=True)
class Conv:
    """A convolution; `groups` 0: depthwise, else their common divisor with the channels."""

    filters: int
    window: Window = Window()
    groups: int = 1
    bias: bool = True

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        batch, channels, *size = shape
        groups = gcd(self.groups, channels)
        attributes, out = self.window.fitted(tuple(size))
        each, kernel = channels // groups, attributes["kernel_shape"]
        co = self.filters * groups
        inputs = [x, net.weight(co, each, *kernel, fan_in=each * prod(kernel))]
        if self.bias:
            inputs.append(net.weight(co))
        return net.op("Conv", *inputs, group=groups, **attributes), (batch, co, *out)


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution; pads and `more` (output padding) as far as they are legal."""

    filters: int
    window: Window = Window()
    groups: int = 1
    bias: bool = True
    more: Triple = (0, 0, 0)

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        batch, channels, *size = shape
        groups, rank = gcd(self.groups, channels), len(size)
        window = self.window
        pads, more, out = [], [], []
        for axis, extent in enumerate(size):
            stride, dilation = window.strides[axis], window.dilations[axis]
            full = (extent - 1) * stride + dilation * (window.kernel[axis] - 1) + 1
            given = (0, 0) if isinstance(window.pads, str) else window.pads[axis]
            before = min(given[0], full - 1)
            after = min(given[1], full - 1 - before)
            pads.append((before, after))
            more.append(min(self.more[axis], stride - 1))  # of ONNX's rules the part that TVM takes
            out.append(full - before - after + more[-1])
        kernel = window.kernel[:rank]
        co = self.filters * groups
        inputs = [x, net.weight(channels, self.filters, *kernel, fan_in=channels // groups * prod(kernel))]
        if self.bias:
            inputs.append(net.weight(co))
        y = net.op(
            "ConvTranspose", *inputs, group=groups, kernel_shape=kernel, strides=window.strides[:rank],
            dilations=window.dilations[:rank], output_padding=more,
            pads=[before for before, _ in pads] + [after for _, after in pads],
        )  # fmt: skip
        return y, (batch, co, *out)


def _rounded_up(extent: int, axis: int, attributes: dict[str, Any]) -> int:
    """Return how many windows there are, the last of them cut off; 0: it would be all in the padding."""
    rank = len(attributes["strides"])
    before, after = attributes["pads"][axis], attributes["pads"][axis + rank]
    reach = attributes.get("dilations", [1] * rank)[axis] * (attributes["kernel_shape"][axis] - 1)
    stride = attributes["strides"][axis]
    count = -(-(extent + before + after - reach - 1) // stride) + 1
    return 0 if (count - 1) * stride >= extent + before else count


@dataclass(frozen=True)
class Pool:
    """`MaxPool`, `AveragePool` or `LpPool`."""

    kind: str
    window: Window
    ceil: bool = False
    count: bool = False

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        batch, channels, *size = shape
        window, dilated = self.window, self.kind == "MaxPool"
        attributes, out = window.fitted(tuple(size), dilated)
        taps = attributes["kernel_shape"]
        if any(pad >= most for pad, most in zip(attributes.get("pads", ()), taps * 2, strict=False)):
            window = replace(window, pads=((0, 0),) * 3)  # ONNX's runtimes want no pads as wide as the kernel
            attributes, out = window.fitted(tuple(size), dilated)
        if self.ceil and self.kind != "LpPool" and "pads" in attributes:
            rounded = [_rounded_up(extent, axis, attributes) for axis, extent in enumerate(size)]
            if all(rounded):  # else ONNX's shape inference and its runtimes count differently
                attributes["ceil_mode"] = 1
                out = tuple(rounded)
        if self.kind == "AveragePool" and self.count:
            attributes["count_include_pad"] = 1
        return net.op(self.kind, x, **attributes), (batch, channels, *out)

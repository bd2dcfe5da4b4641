"""Networks in 8-bit integers as `.tflite` files: ours beside LiteRT with XNNPACK, one thread.

    python -m benchmarks.litert [NETWORK…] [--write docs/benchmarks-int8.md]

The files have the layers of published networks with random weights, int8 activations and a scale for each
channel of the weights, as LiteRT's converters write them. Both run in one process in turns; times are CPU
times, the least of each turn, then the middle of all turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from ai_edge_litert.interpreter import Interpreter

from benchmarks.latency.document import write
from benchmarks.latency.tables import table
from benchmarks.limits import compile_network
from benchmarks.machine import machine
from benchmarks.words import note
from tests.models.tflite.writer import Writer
from toolchain.host import host_profile
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

_TURNS, _RUNS = 9, 5
_WEIGHT = 40  # standard deviation of the weights' integers
_SAME, _RELU, _RELU6 = 0, 1, 3  # the schema's Padding and ActivationFunctionType
_DEPTHWISE = "DEPTHWISE_CONV_2D"
_TABLES = {"CONV_2D": "Conv2DOptions", _DEPTHWISE: "DepthwiseConv2DOptions"}
# Scale and zero point of values behind an activation: what RELU6 limits fills the range.
_RULES = {0: (0.05, 0), _RELU: (0.05, -128), _RELU6: (6 / 255, -128)}


class Layers:
    """A network that is written layer by layer, with seeded weights."""

    def __init__(self, size: int = 224) -> None:
        self.writer, self.random = Writer(), np.random.default_rng(0)
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.scales: dict[int, float] = {}
        self.value = self._value((1, size, size, 3))
        self.writer.inputs.append(self.value)

    def conv(self, channels: int, kernel: int, stride: int = 1, act: int = _RELU) -> None:
        """Add a convolution."""
        ci = self.shapes[self.value][3]
        self._contraction("CONV_2D", (channels, kernel, kernel, ci), 0, stride, act)

    def depthwise(self, kernel: int, stride: int = 1, act: int = _RELU6) -> None:
        """Add a depthwise convolution."""
        channels = self.shapes[self.value][3]
        self._contraction(_DEPTHWISE, (1, kernel, kernel, channels), 3, stride, act)

    def pool(self) -> None:
        """Add the largest of 3x3, every second one."""
        _n, high, wide, channels = self.shapes[self.value]
        before = self.value
        self.value = self._value((1, -(-high // 2), -(-wide // 2), channels), _RELU)
        window = {"FilterWidth": 3, "FilterHeight": 3, "StrideW": 2, "StrideH": 2, "Padding": _SAME}
        self.writer.call("MAX_POOL_2D", [before], [self.value], "Pool2DOptions", **window)

    def add(self, other: int, act: int = 0) -> None:
        """Add another value to this one."""
        before = self.value
        self.value = self._value(self.shapes[before], act)
        options = {"FusedActivationFunction": act}
        self.writer.call("ADD", [before, other], [self.value], "AddOptions", **options)

    def finish(self, classes: int = 1000) -> bytes:
        """Add the mean and a dense layer; return the file."""
        channels = self.shapes[self.value][3]
        axes = self.writer.constant(np.array([1, 2], "int32"))
        pooled = self._value((1, channels), _RELU)
        self.writer.call("MEAN", [self.value, axes], [pooled], "ReducerOptions", KeepDims=False)
        weight, bias = self._weight(pooled, (classes, channels), 0)
        self.value = self._value((1, classes))
        self.writer.call("FULLY_CONNECTED", [pooled, weight, bias], [self.value], "FullyConnectedOptions")
        self.writer.outputs.append(self.value)
        return self.writer.finish()

    def _contraction(self, name: str, shape: tuple[int, ...], axis: int, stride: int, act: int) -> None:
        before = self.value
        _n, high, wide, _c = self.shapes[before]
        weight, bias = self._weight(before, shape, axis)
        self.value = self._value((1, -(-high // stride), -(-wide // stride), shape[axis]), act)
        options: dict[str, Any] = {
            "StrideW": stride,
            "StrideH": stride,
            "Padding": _SAME,
            "FusedActivationFunction": act,
            "DilationWFactor": 1,
            "DilationHFactor": 1,
        }
        if name == _DEPTHWISE:
            options["DepthMultiplier"] = 1
        self.writer.call(name, [before, weight, bias], [self.value], _TABLES[name], **options)

    def _weight(self, value: int, shape: tuple[int, ...], axis: int) -> tuple[int, int]:
        """Return a weight whose sums are about as large as its inputs, and a bias."""
        count = shape[axis]
        scale = np.full(count, 1 / (_WEIGHT * np.sqrt(np.prod(shape) / count)), "float32")
        values = np.clip(np.rint(self.random.normal(0, _WEIGHT, shape)), -127, 127).astype("int8")
        sums = self.scales[value] * scale
        bias = np.rint(self.random.normal(0, 0.2, count) / sums).astype("int32")
        weight = self.writer.constant(values, scale=scale, zero=0, axis=axis)
        return weight, self.writer.constant(bias, scale=sums, zero=0)

    def _value(self, shape: tuple[int, ...], act: int = 0) -> int:
        scale, zero = _RULES[act]
        place = self.writer.add(shape, "int8", scale=scale, zero=zero)
        self.shapes[place], self.scales[place] = shape, scale
        return place


def resnet_18() -> bytes:
    """Return ResNet-18 (He and others, 2015)."""
    net = Layers()
    net.conv(64, 7, 2)
    net.pool()
    for channels, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            before = net.value
            net.conv(channels, 3, stride)
            net.conv(channels, 3, act=0)
            made = net.value
            if stride > 1:
                net.value = before
                net.conv(channels, 1, stride, act=0)
                before, net.value = net.value, made
            net.add(before, _RELU)
    return net.finish()


def mobilenet() -> bytes:
    """Return MobileNet (Howard and others, 2017)."""
    net = Layers()
    net.conv(32, 3, 2, _RELU6)
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5,
                             (1024, 2), (1024, 1)):  # fmt: skip
        net.depthwise(3, stride)
        net.conv(channels, 1, act=_RELU6)
    return net.finish()


def mobilenet_v2() -> bytes:
    """Return MobileNet-v2 (Sandler and others, 2018)."""
    net = Layers()
    net.conv(32, 3, 2, _RELU6)
    rows = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for grown, channels, repeats, first in rows:
        for number in range(repeats):
            before, ci = net.value, net.shapes[net.value][3]
            if grown > 1:
                net.conv(ci * grown, 1, act=_RELU6)
            net.depthwise(3, 1 if number else first)
            net.conv(channels, 1, act=0)
            if number:
                net.add(before)
    net.conv(1280, 1, act=_RELU6)
    return net.finish()


NETWORKS: Mapping[str, Callable[[], bytes]] = {
    "resnet-18": resnet_18,
    "mobilenet": mobilenet,
    "mobilenet-v2": mobilenet_v2,
}


def measured(file: Path, folder: Path) -> tuple[float, float, float]:
    """Return the milliseconds of an inference, ours and LiteRT's, and the share of outputs within a step."""
    model = load_model(str(file), ModelOptions())
    ours = compile_network(model, host_profile(), folder).machine
    theirs = Interpreter(model_path=str(file), num_threads=1)
    theirs.allocate_tensors()
    (spec,) = theirs.get_input_details()
    given = np.random.default_rng(1).integers(-128, 128, spec["shape"]).astype("int8")
    theirs.set_tensor(spec["index"], given)
    tensor = tvm.runtime.tensor(given)

    def least(call: Callable[[], object]) -> float:
        found = []
        for _ in range(_RUNS):
            begun = time.thread_time_ns()
            call()
            found.append(time.thread_time_ns() - begun)
        return min(found) / 1e6

    turns = [(least(lambda: ours["main"](tensor)), least(theirs.invoke)) for _ in range(_TURNS)]
    result = ours["main"](tensor)
    mine = (result if hasattr(result, "numpy") else result[0]).numpy().astype(int)
    same = np.abs(mine - theirs.get_tensor(theirs.get_output_details()[0]["index"])) <= 1
    return *map(statistics.median, zip(*turns, strict=True)), float(same.mean())


def main() -> None:
    """Print a table, or write it into a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--write", type=Path, metavar="FILE", help="fill the table of a Markdown file")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for each in given.networks or NETWORKS:
            file = Path(name) / f"{each}.tflite"
            file.write_bytes(NETWORKS[each]())
            ours, theirs, same = measured(file, Path(name) / each)
            note(f"{each}: {ours / theirs:.2f}")
            rows.append([each, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}", f"{same:.1%}"])
    where = machine(["ai-edge-litert"], Path(sys.executable))
    said = f"{where['cpu']}; ours at {where['commit']}; LiteRT {where['versions']['ai-edge-litert']}"
    header = ("network", "ours ms", "LiteRT ms", "ours / LiteRT", "outputs within a step")
    text = f"Measured on {where['date']}: {said}. One thread.\n\n{table(header, rows)}"
    print(text)
    if given.write:
        write(given.write, {"litert": text}, "benchmarks/litert.py")


if __name__ == "__main__":
    main()

"""Networks for planted faults, with the parts of their outputs as their authors would name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.families.graph import Net
from benchmarks.families.table import FAMILIES
from tests.planted.faults import Region
from toolchain.models.options import ModelOptions
from toolchain.models.reading.source import read_source

_PICTURE = (1, 3, 64, 64)
_ALL = slice(None)


@dataclass(frozen=True)
class Planted:
    """A network that faults are planted into.

    Attributes
    ----------
    write
        Writes it to a file; gets a folder for its own files.
    parts
        Regions of the output that mean different things; empty: the whole output is one.
    """

    name: str
    kind: str
    write: Callable[[Path], onnx.ModelProto]
    parts: Sequence[Region] = field(default=())


def family(name: str, shape: tuple[int, ...]) -> Callable[[Path], onnx.ModelProto]:
    """Return what writes a network of the benchmarks' families for a small input."""
    return lambda _folder: FAMILIES[name].model(shape)


def built(define: Callable[[Net], str], shape: tuple[int, ...]) -> Callable[[Path], onnx.ModelProto]:
    """Return what writes a network of this file."""

    def write(_folder: Path) -> onnx.ModelProto:
        net = Net(define.__name__, shape)
        return net.model(define(net))

    return write


def _features(net: Net) -> str:
    x = net.norm_conv("c0", net.data, 16, 3, 2, act="Relu")
    return net.norm_conv("c2", net.norm_conv("c1", x, 32, 3, 2, act="Relu"), 32, 3, 2, act="Relu")


def detector_in_pixels(net: Net) -> str:
    """Boxes in pixels and scores of ten classes, joined: the output of today's YOLOs."""
    x = _features(net)
    places = net.shape(x)[2] * net.shape(x)[3]
    boxes = net.reshape("b", net.conv("boxes", x, 4, bias=True, kernel=1), 1, 4, places)
    pixels = net.binary(
        "Mul", "pixels", net.unary("Sigmoid", "fractions", boxes), net.constant("stride", 640.0)
    )
    scores = net.reshape("s", net.conv("scores", x, 10, bias=True, kernel=1), 1, 10, places)
    shy = net.binary("Sub", "shy", scores, net.constant("shyness", 4.0))
    return net.join("detections", 1, pixels, net.unary("Sigmoid", "probabilities", shy))


def detector_of_one_convolution(net: Net) -> str:
    """The same from one convolution whose channels are scaled, as YOLOv5's grid: nothing is joined."""
    x = _features(net)
    y = net.unary("Sigmoid", "y", net.conv("head", x, 14, bias=True, kernel=1))
    scales = net.constant("scales", np.where(np.arange(14) < 4, 640.0, 0.5).reshape(1, 14, 1, 1))
    return net.binary("Mul", "detections", y, scales)


def detector_with_softmax(net: Net) -> str:
    """Offsets of boxes and probabilities of classes side by side for each anchor, as an SSD."""
    x = _features(net)
    anchors = net.shape(x)[2] * net.shape(x)[3]
    ends = []
    for name, channels in (("offsets", 4), ("classes", 12)):
        y = net.reshape(
            f"{name}_flat", net.conv(name, x, channels, bias=True, kernel=1), 1, channels, anchors
        )
        ends.append(net.transpose(f"{name}_turned", y, 0, 2, 1))
    pixels = net.binary("Mul", "pixels", ends[0], net.constant("stride", 300.0))
    return net.join("detections", 2, pixels, net.unary("Softmax", "probabilities", ends[1], axis=2))


class _Samples(CalibrationDataReader):
    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        random = np.random.default_rng(0)
        self._left = [{name: random.standard_normal(shape).astype(np.float32)} for _ in range(2)]

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def quantised(
    write: Callable[[Path], onnx.ModelProto], form: QuantFormat | None
) -> Callable[[Path], onnx.ModelProto]:
    """Return what quantises a network by onnxruntime's own tool; None: its products alone, dynamically."""

    def quantise(folder: Path) -> onnx.ModelProto:
        plain, prepared, integers = (folder / f"{step}.onnx" for step in ("float", "prepared", "integers"))
        onnx.save(write(folder), plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        if form is None:
            quantize_dynamic(prepared, integers)
            return onnx.load(integers)
        value = onnx.load(prepared).graph.input[0]
        shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        quantize_static(
            prepared,
            integers,
            _Samples(value.name, shape),
            quant_format=form,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(integers)

    return quantise


def _squeezenet(_folder: Path) -> onnx.ModelProto:
    return read_source("zoo:squeezenet_v1.1", ModelOptions(shapes={"data": _PICTURE})).proto


_FOUR_FIRST = ((_ALL, slice(0, 4)), (_ALL, slice(4, None)))
_FOUR_LAST_AXIS = ((_ALL, _ALL, slice(0, 4)), (_ALL, _ALL, slice(4, None)))
_NETWORKS = (
    Planted("yolo", "detector", family("yolo", _PICTURE), _FOUR_FIRST),
    Planted("detector in pixels", "detector", built(detector_in_pixels, _PICTURE), _FOUR_FIRST),
    Planted(
        "detector of one convolution", "detector", built(detector_of_one_convolution, _PICTURE), _FOUR_FIRST
    ),
    Planted("detector with softmax", "detector", built(detector_with_softmax, _PICTURE), _FOUR_LAST_AXIS),
    Planted("unet", "segmenter", family("unet", (1, 3, 32, 32))),
    Planted("deeplab", "segmenter", family("deeplab", _PICTURE)),
    Planted("bert-small", "transformer", family("bert-small", (1, 16))),
    Planted("deit-tiny", "transformer", family("deit-tiny", (1, 3, 224, 224))),
    Planted("conformer", "transformer", family("conformer", (1, 20, 80))),
    Planted("lstm", "recurrent", family("lstm", (8, 1, 128))),
    Planted("gru", "recurrent", family("gru", (8, 1, 96))),
    Planted("crnn", "recurrent", family("crnn", (1, 1, 32, 64))),
    Planted("mobilenet-v3", "classifier", family("mobilenet-v3", _PICTURE)),
    Planted("shufflenet-v2", "classifier", family("shufflenet-v2", _PICTURE)),
    Planted("convnext", "classifier", family("convnext", _PICTURE)),
    Planted("espcn", "super-resolution", family("espcn", (1, 1, 32, 32))),
    Planted("wavenet", "sound", family("wavenet", (1, 1, 1024))),
    Planted("diffusion-unet", "denoiser", family("diffusion-unet", (1, 3, 16, 16))),
    Planted("squeezenet in QDQ", "quantised", quantised(_squeezenet, QuantFormat.QDQ)),
    Planted(
        "shufflenet-v2 in QOperator",
        "quantised",
        quantised(family("shufflenet-v2", _PICTURE), QuantFormat.QOperator),
    ),
    Planted("bert-small, dynamic", "quantised", quantised(family("bert-small", (1, 16)), None)),
)
NETWORKS = {network.name: network for network in _NETWORKS}

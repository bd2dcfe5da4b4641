"""The networks by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from benchmarks.families import mobile, pictures, plain, sequences, unusual
from benchmarks.families.graph import Net


@dataclass(frozen=True)
class Network:
    """A network outside the zoo, without its weights.

    Attributes
    ----------
    family
        What about it the zoo's networks don't have.
    shape
        Of the input `data`, that the benchmark takes.
    tokens
        Words that the input chooses from; 0: it is of real numbers.
    """

    name: str
    family: str
    define: Callable[[Net], str]
    shape: tuple[int, ...]
    tokens: int = 0

    def model(self, shape: tuple[int, ...] | None = None) -> onnx.ModelProto:
        """Return the network with its weights, for another shape of the input if one is given."""
        net = Net(self.name, shape or self.shape, tokens=self.tokens)
        return net.model(self.define(net))


_PICTURE = (1, 3, 224, 224)
_FAMILIES = (
    Network("efficientnet-b0", "squeeze-and-excite, SiLU, 5x5 depthwise", mobile.efficientnet_b0, _PICTURE),
    Network("mobilenet-v3", "squeeze-and-excite, hard swish, 5x5 depthwise", mobile.mobilenet_v3, _PICTURE),
    Network("shufflenet-v2", "channel shuffle", mobile.shufflenet_v2, _PICTURE),
    Network("ds-cnn", "keywords, tiny", mobile.ds_cnn, (1, 1, 49, 10)),
    Network("mlp", "dense layers, tiny", mobile.mlp, (1, 640)),
    Network("alexnet", "Dropout, large dense layers", plain.alexnet, _PICTURE),
    Network("densenet-121", "dense concatenations", plain.densenet_121, _PICTURE),
    Network("resnext-50", "grouped 3x3", plain.resnext_50, _PICTURE),
    Network("regnety-400mf", "grouped 3x3, squeeze-and-excite", plain.regnety_400mf, _PICTURE),
    Network("convnext", "7x7 depthwise, layer norm, GELU", plain.convnext, _PICTURE),
    Network("unet", "U-Net", pictures.unet, (1, 3, 128, 128)),
    Network("deeplab", "dilated 3x3, resize", pictures.deeplab, (1, 3, 256, 256)),
    Network("edsr", "super-resolution, many 3x3", pictures.edsr, (1, 3, 64, 64)),
    Network("espcn", "super-resolution, few channels", pictures.espcn, (1, 1, 128, 128)),
    Network("style", "reflected borders, instance norm", pictures.style, (1, 3, 128, 128)),
    Network("diffusion-unet", "group norm, SiLU, attention", pictures.diffusion_unet, (1, 3, 32, 32)),
    Network("yolo", "detector, SiLU", pictures.yolo, (1, 3, 256, 256)),
    Network("deit-tiny", "attention over patches", sequences.deit_tiny, _PICTURE),
    Network("bert-small", "attention over words", sequences.bert_small, (1, 128), tokens=8000),
    Network("mixer", "dense layers over places", sequences.mixer, _PICTURE),
    Network("wav2vec-convs", "1-D convolutions, GELU", sequences.wav2vec_convs, (1, 1, 8000)),
    Network("wavenet", "1-D dilated, gated", sequences.wavenet, (1, 1, 2048)),
    Network("lstm", "LSTM 2 x 128 x 50", sequences.lstm, (50, 1, 128)),
    Network("gru", "GRU 2 x 96 x 50, both directions", sequences.gru, (50, 1, 96)),
    Network("crnn", "convolutions, then LSTM in both directions", sequences.crnn, (1, 1, 32, 128)),
    Network("pitch", "long filters of one channel, few channels", unusual.pitch, (1, 1, 1, 22050)),
    Network("conformer", "attention, depthwise 1-D of 31 taps", unusual.conformer, (1, 100, 80)),
    Network("dcgan", "transposed 4x4", unusual.dcgan, (1, 100, 1, 1)),
    Network("unet-3d", "3x3x3, transposed 2x2x2", unusual.unet_3d, (1, 1, 32, 32, 32)),
    Network("rcan", "super-resolution, many 3x3, gates", unusual.rcan, (1, 3, 48, 48)),
    Network("bifpn", "3x3 on maps down to 4x4", unusual.bifpn, (1, 3, 128, 128)),
)
FAMILIES = {network.name: network for network in _FAMILIES}

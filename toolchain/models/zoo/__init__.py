"""The zoo: networks defined in Python, with seeded weights. Listing them imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from toolchain.models.zoo import networks

if TYPE_CHECKING:
    from toolchain.models.zoo.graph_builder import GraphBuilder


@dataclass(frozen=True)
class ZooNetwork:
    """A network of the zoo, without its weights.

    Attributes
    ----------
    name
        What the user types after `zoo:`.
    summary
        One line for `model list`.
    parameters
        Learnt values (running statistics of batch normalisation not counted, as is usual).
    macs
        Multiply-accumulates of convolutions and dense layers at `shape`.
    define
        Adds the layers up to the logits and returns the logits' name.
    shape
        Default shape of the input `data`: NCHW, or NCTHW for video.
    """

    name: str
    summary: str
    parameters: int
    macs: int
    define: Callable[[GraphBuilder], str]
    shape: tuple[int, ...] = (1, 3, 224, 224)


def _resnet(layers: int, parameters: int, macs: int, block: networks.Block, *depths: int) -> ZooNetwork:
    define = partial(networks.resnet, block=block, depths=depths)
    variant = ", stride in the 3x3" if block is networks.bottleneck else ""
    return ZooNetwork(f"resnet-{layers}", f"ResNet-{layers} v1{variant}", parameters, macs, define)


def _vgg(layers: int, parameters: int, macs: int, *depths: int) -> ZooNetwork:
    define = partial(networks.vgg, depths=depths)
    return ZooNetwork(f"vgg-{layers}", f"VGG-{layers}, no batch norm", parameters, macs, define)


ZOO: dict[str, ZooNetwork] = {
    network.name: network
    for network in (
        ZooNetwork(
            "inception_v3", "Inception v3", 23_834_568, 5_713_216_096, networks.inception, (1, 3, 299, 299)
        ),
        ZooNetwork("mobilenet", "MobileNet-v1, width 1.0", 4_231_976, 568_740_352, networks.mobilenet),
        _resnet(18, 11_689_512, 1_814_073_344, networks.basic, 2, 2, 2, 2),
        _resnet(34, 21_797_672, 3_663_761_408, networks.basic, 3, 4, 6, 3),
        _resnet(50, 25_557_032, 4_089_184_256, networks.bottleneck, 3, 4, 6, 3),
        _resnet(101, 44_549_160, 7_801_405_440, networks.bottleneck, 3, 4, 23, 3),
        _resnet(152, 60_192_808, 11_513_626_624, networks.bottleneck, 3, 8, 36, 3),
        ZooNetwork(
            "resnet3d-18",
            "R3D-18: ResNet-18 in 3-D",
            33_371_472,
            40_696_553_472,
            networks.resnet3d,
            (1, 3, 16, 112, 112),
        ),
        ZooNetwork("squeezenet_v1.1", "SqueezeNet 1.1", 1_235_496, 349_151_936, networks.squeezenet),
        _vgg(11, 132_863_336, 7_609_090_048, 1, 1, 2, 2, 2),
        _vgg(13, 133_047_848, 11_308_466_176, 2, 2, 2, 2, 2),
        _vgg(16, 138_357_544, 15_470_264_320, 2, 2, 3, 3, 3),
        _vgg(19, 143_667_240, 19_632_062_464, 2, 2, 4, 4, 4),
    )
}

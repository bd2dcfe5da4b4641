"""The zoo: networks defined in Python, with seeded weights. Listing them imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.models.zoo import mobilenet, resnet, squeezenet

if TYPE_CHECKING:
    from toolchain.models.zoo.graph import GraphBuilder


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
        Default shape of the input `data`, NCHW.
    """

    name: str
    summary: str
    parameters: int
    macs: int
    define: Callable[[GraphBuilder], str]
    shape: tuple[int, int, int, int] = (1, 3, 224, 224)


ZOO: dict[str, ZooNetwork] = {
    network.name: network
    for network in (
        ZooNetwork("mobilenet", "MobileNet-v1, width 1.0", 4_231_976, 568_740_352, mobilenet.define),
        ZooNetwork("resnet-18", "ResNet-18 v1", 11_689_512, 1_814_073_344, resnet.define),
        ZooNetwork("squeezenet_v1.1", "SqueezeNet 1.1", 1_235_496, 349_151_936, squeezenet.define),
    )
}

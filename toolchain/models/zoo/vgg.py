"""VGG without batch norm (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1: A, B, D and E)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.models.zoo.graph import GraphBuilder

WIDTHS = (64, 128, 256, 512, 512)
"""Channels of each stage; a pooling ends it."""

FEATURES = 7
"""Height and width of what the dense layers see of an image of 224 x 224."""


def define(net: GraphBuilder, depths: tuple[int, ...]) -> str:
    """Add the layers, `depths[i]` convolutions in stage i, and return the name of the logits.

    Features of more than 7 x 7 values (of an image larger than 224 x 224) are averaged to 7 x 7, so that
    the weights don't grow with the image; with fewer values, the first dense layer has fewer weights.
    """
    x = net.data
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True), start=1):
        for i in range(1, depth + 1):
            y = net.conv(f"conv{stage}_{i}", x, width, kernel=3, padding=1, bias=True)
            x = net.relu(f"relu{stage}_{i}", y)
        x = net.max_pool(f"pool{stage}", x, kernel=2, stride=2)
    x = net.flatten("flatten", _at_most(net, x, FEATURES))
    x = net.relu("relu6", net.dense("fc6", x, 4096))
    x = net.relu("relu7", net.dense("fc7", x, 4096))
    return net.dense("fc8", x, 1000)


def _at_most(net: GraphBuilder, x: str, extent: int) -> str:
    height, width = net.shape(x)[2:]
    if max(height, width) <= extent:
        return x
    strides = (max(1, height // extent), max(1, width // extent))
    kernels = [
        size - (min(size, extent) - 1) * stride for size, stride in zip((height, width), strides, strict=True)
    ]
    return net.average_pool("average", x, kernel=tuple(kernels), stride=strides)

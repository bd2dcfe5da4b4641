"""MobileNet-v1 1.0 (Howard et al. 2017, arXiv:1704.04861, table 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.models.zoo.graph import GraphBuilder

BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
"""Output channels and stride of each depthwise-separable block."""


def define(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.conv_bn_relu("conv1", net.data, 32, kernel=3, stride=2, padding=1)
    for i, (channels, stride) in enumerate(BLOCKS, start=2):
        width = net.channels(x)
        x = net.conv_bn_relu(f"conv{i}_dw", x, width, kernel=3, stride=stride, padding=1, groups=width)
        x = net.conv_bn_relu(f"conv{i}_pw", x, channels, kernel=1)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool", x)), 1000)

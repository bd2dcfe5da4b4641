"""ResNet-18 v1 (He et al. 2015, arXiv:1512.03385, table 1); identity shortcuts in the first stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.models.zoo.graph import GraphBuilder

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels of each stage and stride of its first block; two blocks each."""

RESIDUAL_GAMMA = 0.5
"""Scale of a block's last batch norm: sums of eight blocks stay in range."""


def define(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.conv_bn_relu("conv1", net.data, 64, kernel=7, stride=2, padding=3)
    x = net.max_pool("pool1", x, kernel=3, stride=2, padding=1)
    for stage, (channels, first_stride) in enumerate(STAGES, start=1):
        for block, stride in enumerate((first_stride, 1), start=1):
            x = _block(net, f"stage{stage}_block{block}", x, channels, stride)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool2", x)), 1000)


def _block(net: GraphBuilder, name: str, x: str, channels: int, stride: int) -> str:
    shortcut = x
    if stride != 1 or net.channels(x) != channels:
        shortcut = net.conv_bn(f"{name}_shortcut", x, channels, kernel=1, stride=stride)
    y = net.conv_bn_relu(f"{name}_conv1", x, channels, kernel=3, stride=stride, padding=1)
    y = net.conv_bn(f"{name}_conv2", y, channels, kernel=3, padding=1, gamma=RESIDUAL_GAMMA)
    return net.relu(f"{name}_relu", net.add(f"{name}_add", y, shortcut))

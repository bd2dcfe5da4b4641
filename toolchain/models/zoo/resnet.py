"""ResNet v1 (He et al. 2015, arXiv:1512.03385, table 1), as torchvision has it, sometimes called v1.5.

A bottleneck's stride is in its 3x3 convolution, not in the first 1x1 as in the paper. Shortcuts are
identities where the shape stays, and projections (option B of the paper) where it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.models.zoo.graph import GraphBuilder

Block = Callable[["GraphBuilder", str, str, int, int, float], str]
"""Adds the layers on a shortcut's other side; from name, input, width, stride and last gamma."""

WIDTHS = (64, 128, 256, 512)
"""Width of each stage; all but the first begin with stride 2."""

RESIDUAL_GAMMA = 0.5
"""Scale of a block's last batch norm in a network of eight blocks: their sums stay in range."""


def define(net: GraphBuilder, block: Block, depths: tuple[int, ...]) -> str:
    """Add the layers, `depths[i]` blocks in stage i, and return the name of the logits."""
    x = net.conv_bn_relu("conv1", net.data, 64, kernel=7, stride=2, padding=3)
    x = net.max_pool("pool1", x, kernel=3, stride=2, padding=1)
    x = stages(net, x, block, depths)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool2", x)), 1000)


def stages(net: GraphBuilder, x: str, block: Block, depths: tuple[int, ...]) -> str:
    """Add the residual stages, in as many dimensions as `x` has."""
    # However many blocks there are, all together add the variance that eight do.
    gamma = RESIDUAL_GAMMA * (8 / sum(depths)) ** 0.5
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True), start=1):
        for i in range(1, depth + 1):
            stride = 2 if stage > 1 and i == 1 else 1
            x = _residual(net, f"stage{stage}_block{i}", x, block, width, stride, gamma)
    return x


def basic(net: GraphBuilder, name: str, x: str, width: int, stride: int, gamma: float) -> str:
    """Add two convolutions with kernels of 3."""
    y = net.conv_bn_relu(f"{name}_conv1", x, width, kernel=3, stride=stride, padding=1)
    return net.conv_bn(f"{name}_conv2", y, width, kernel=3, padding=1, gamma=gamma)


def bottleneck(net: GraphBuilder, name: str, x: str, width: int, stride: int, gamma: float) -> str:
    """Add convolutions with kernels of 1, 3 and 1, the last four times as wide."""
    y = net.conv_bn_relu(f"{name}_conv1", x, width, kernel=1)
    y = net.conv_bn_relu(f"{name}_conv2", y, width, kernel=3, stride=stride, padding=1)
    return net.conv_bn(f"{name}_conv3", y, 4 * width, kernel=1, gamma=gamma)


def _residual(
    net: GraphBuilder, name: str, x: str, block: Block, width: int, stride: int, gamma: float
) -> str:
    y = block(net, name, x, width, stride, gamma)
    shortcut = x
    if net.shape(y) != net.shape(x):
        shortcut = net.conv_bn(f"{name}_shortcut", x, net.channels(y), kernel=1, stride=stride)
    return net.relu(f"{name}_relu", net.add(f"{name}_add", y, shortcut))

"""SqueezeNet 1.1 (Iandola et al. 2016, arXiv:1602.07360; version 1.1 of its authors' repository)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.models.zoo.graph import GraphBuilder

FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
"""Squeeze channels and channels of each of the two expansions; fire2 … fire9."""

POOL_BEFORE = {4: "pool3", 6: "pool5"}


def define(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.relu("relu1", net.conv("conv1", net.data, 64, kernel=3, stride=2, bias=True))
    x = net.max_pool("pool1", x, kernel=3, stride=2)
    for i, (squeeze, expand) in enumerate(FIRES, start=2):
        if i in POOL_BEFORE:
            x = net.max_pool(POOL_BEFORE[i], x, kernel=3, stride=2)
        x = _fire(net, f"fire{i}", x, squeeze, expand)
    x = net.relu("relu10", net.conv("conv10", x, 1000, kernel=1, bias=True))
    return net.flatten("flatten", net.global_average_pool("pool10", x))


def _fire(net: GraphBuilder, name: str, x: str, squeeze: int, expand: int) -> str:
    s = net.relu(f"{name}_relu_squeeze", net.conv(f"{name}_squeeze", x, squeeze, kernel=1, bias=True))
    e1 = net.relu(f"{name}_relu_expand1x1", net.conv(f"{name}_expand1x1", s, expand, kernel=1, bias=True))
    e3 = net.conv(f"{name}_expand3x3", s, expand, kernel=3, padding=1, bias=True)
    return net.concat(f"{name}_concat", e1, net.relu(f"{name}_relu_expand3x3", e3))

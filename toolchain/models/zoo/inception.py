"""Inception v3 (Szegedy et al. 2015, arXiv:1512.00567) as torchvision has it, without its auxiliary head."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.models.zoo.graph import Extent, GraphBuilder

EPSILON = 1e-3  # of the batch norms, torchvision/models/inception.py

Branch = tuple[tuple[int, "Extent"], ...]
"""Channels and kernel of convolutions, one behind the other."""

ROW, COLUMN = (1, 7), (7, 1)


def define(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.conv_bn_relu("conv1a", net.data, 32, kernel=3, stride=2, epsilon=EPSILON)
    x = net.conv_bn_relu("conv2a", x, 32, kernel=3, epsilon=EPSILON)
    x = net.conv_bn_relu("conv2b", x, 64, kernel=3, padding=1, epsilon=EPSILON)
    x = net.max_pool("pool1", x, kernel=3, stride=2)
    x = net.conv_bn_relu("conv3b", x, 80, kernel=1, epsilon=EPSILON)
    x = net.conv_bn_relu("conv4a", x, 192, kernel=3, epsilon=EPSILON)
    x = net.max_pool("pool2", x, kernel=3, stride=2)
    threes: Branch = ((64, 1), (96, 3), (96, 3))
    for name, pooled in (("mixed5b", 32), ("mixed5c", 64), ("mixed5d", 64)):
        x = _mixed(net, name, x, pooled, ((64, 1),), ((48, 1), (64, 5)), threes)
    x = _reduction(net, "mixed6a", x, ((384, 3),), threes)
    for name, c in (("mixed6b", 128), ("mixed6c", 160), ("mixed6d", 160), ("mixed6e", 192)):
        sevens: Branch = ((c, 1), (c, COLUMN), (c, ROW), (c, COLUMN), (192, ROW))
        x = _mixed(net, name, x, 192, ((192, 1),), ((c, 1), (c, ROW), (192, COLUMN)), sevens)
    x = _reduction(net, "mixed7a", x, ((192, 1), (320, 3)), ((192, 1), (192, ROW), (192, COLUMN), (192, 3)))
    for name in ("mixed7b", "mixed7c"):
        x = _wide(net, name, x)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool3", x)), 1000)


def _mixed(net: GraphBuilder, name: str, x: str, pooled: int, *branches: Branch) -> str:
    """Add branches that keep height and width, and an average pooling with `pooled` channels."""
    ends = [_branch(net, f"{name}_{i}", x, branch) for i, branch in enumerate(branches, start=1)]
    return net.concat(f"{name}_concat", *ends, _pooled(net, name, x, pooled))


def _reduction(net: GraphBuilder, name: str, x: str, *branches: Branch) -> str:
    """Add branches that end in stride 2, and a max pooling."""
    ends = [_branch(net, f"{name}_{i}", x, branch, stride=2) for i, branch in enumerate(branches, start=1)]
    return net.concat(f"{name}_concat", *ends, net.max_pool(f"{name}_pool", x, kernel=3, stride=2))


def _wide(net: GraphBuilder, name: str, x: str) -> str:
    """Add the last kind of module, two of whose branches end in a 1x3 beside a 3x1."""
    ends = [_branch(net, f"{name}_1", x, ((320, 1),))]
    for i, branch in enumerate((((384, 1),), ((448, 1), (384, 3))), start=2):
        y = _branch(net, f"{name}_{i}", x, branch)
        sides = [
            _same(net, f"{name}_{i}_{side}", y, 384, k) for side, k in (("row", (1, 3)), ("column", (3, 1)))
        ]
        ends.append(net.concat(f"{name}_{i}_concat", *sides))
    return net.concat(f"{name}_concat", *ends, _pooled(net, name, x, 192))


def _branch(net: GraphBuilder, name: str, x: str, branch: Branch, stride: int = 1) -> str:
    *first, (channels, kernel) = branch
    for i, step in enumerate(first, start=1):
        x = _same(net, f"{name}_conv{i}", x, *step)
    last = f"{name}_conv{len(branch)}"
    if stride == 1:
        return _same(net, last, x, channels, kernel)
    return net.conv_bn_relu(last, x, channels, kernel=kernel, stride=stride, epsilon=EPSILON)


def _pooled(net: GraphBuilder, name: str, x: str, channels: int) -> str:
    pool = net.average_pool(f"{name}_pool", x, kernel=3, padding=1)
    return _same(net, f"{name}_pool_conv", pool, channels, 1)


def _same(net: GraphBuilder, name: str, x: str, channels: int, kernel: Extent) -> str:
    """Add a convolution that keeps height and width."""
    padding = kernel // 2 if isinstance(kernel, int) else tuple(k // 2 for k in kernel)
    return net.conv_bn_relu(name, x, channels, kernel=kernel, padding=padding, epsilon=EPSILON)

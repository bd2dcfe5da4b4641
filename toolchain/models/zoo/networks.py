"""The architectures of the zoo, layer by layer, as their papers and torchvision have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.models.zoo.graph_builder import Extent, GraphBuilder


# MobileNet-v1 1.0 (Howard et al. 2017, arXiv:1704.04861, table 1).

MOBILENET_BLOCKS = (
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


def mobilenet(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.conv_bn_relu("conv1", net.data, 32, kernel=3, stride=2, padding=1)
    for i, (channels, stride) in enumerate(MOBILENET_BLOCKS, start=2):
        width = net.channels(x)
        x = net.conv_bn_relu(f"conv{i}_dw", x, width, kernel=3, stride=stride, padding=1, groups=width)
        x = net.conv_bn_relu(f"conv{i}_pw", x, channels, kernel=1)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool", x)), 1000)


# SqueezeNet 1.1 (Iandola et al. 2016, arXiv:1602.07360; version 1.1 of its authors' repository).

SQUEEZENET_FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
"""Squeeze channels and channels of each of the two expansions; fire2 … fire9."""

SQUEEZENET_POOLS = {4: "pool3", 6: "pool5"}


def squeezenet(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.relu("relu1", net.conv("conv1", net.data, 64, kernel=3, stride=2, bias=True))
    x = net.max_pool("pool1", x, kernel=3, stride=2)
    for i, (squeeze, expand) in enumerate(SQUEEZENET_FIRES, start=2):
        if i in SQUEEZENET_POOLS:
            x = net.max_pool(SQUEEZENET_POOLS[i], x, kernel=3, stride=2)
        x = _fire(net, f"fire{i}", x, squeeze, expand)
    x = net.relu("relu10", net.conv("conv10", x, 1000, kernel=1, bias=True))
    return net.flatten("flatten", net.global_average_pool("pool10", x))


def _fire(net: GraphBuilder, name: str, x: str, squeeze: int, expand: int) -> str:
    s = net.relu(f"{name}_relu_squeeze", net.conv(f"{name}_squeeze", x, squeeze, kernel=1, bias=True))
    e1 = net.relu(f"{name}_relu_expand1x1", net.conv(f"{name}_expand1x1", s, expand, kernel=1, bias=True))
    e3 = net.conv(f"{name}_expand3x3", s, expand, kernel=3, padding=1, bias=True)
    return net.concat(f"{name}_concat", e1, net.relu(f"{name}_relu_expand3x3", e3))


# VGG without batch norm (Simonyan and Zisserman 2014, arXiv:1409.1556, table 1: A, B, D and E).

VGG_WIDTHS = (64, 128, 256, 512, 512)
"""Channels of each stage; a pooling ends it."""

VGG_FEATURES = 7
"""Height and width of what the dense layers see of an image of 224 x 224."""


def vgg(net: GraphBuilder, depths: tuple[int, ...]) -> str:
    """Add the layers, `depths[i]` convolutions in stage i, and return the name of the logits.

    Features of more than 7 x 7 values (of an image larger than 224 x 224) are averaged to 7 x 7, so that
    the weights don't grow with the image; with fewer values, the first dense layer has fewer weights.
    """
    x = net.data
    for stage, (width, depth) in enumerate(zip(VGG_WIDTHS, depths, strict=True), start=1):
        for i in range(1, depth + 1):
            y = net.conv(f"conv{stage}_{i}", x, width, kernel=3, padding=1, bias=True)
            x = net.relu(f"relu{stage}_{i}", y)
        x = net.max_pool(f"pool{stage}", x, kernel=2, stride=2)
    x = net.flatten("flatten", _at_most(net, x, VGG_FEATURES))
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


# ResNet v1 (He et al. 2015, arXiv:1512.03385, table 1), as torchvision has it, sometimes called v1.5.
#
# A bottleneck's stride is in its 3x3 convolution, not in the first 1x1 as in the paper. Shortcuts are
# identities where the shape stays, and projections (option B of the paper) where it does not.

Block = Callable[["GraphBuilder", str, str, int, int, float], str]
"""Adds a residual block's layers; arguments: builder, name, input, width, stride, gamma of the last norm."""

RESNET_WIDTHS = (64, 128, 256, 512)
"""Width of each stage; all but the first begin with stride 2."""

RESIDUAL_GAMMA = 0.5
"""Scale of a block's last batch norm in a network of eight blocks: their sums stay in range."""


def resnet(net: GraphBuilder, block: Block, depths: tuple[int, ...]) -> str:
    """Add the layers, `depths[i]` blocks in stage i, and return the name of the logits."""
    x = net.conv_bn_relu("conv1", net.data, 64, kernel=7, stride=2, padding=3)
    x = net.max_pool("pool1", x, kernel=3, stride=2, padding=1)
    x = stages(net, x, block, depths)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool2", x)), 1000)


def stages(net: GraphBuilder, x: str, block: Block, depths: tuple[int, ...]) -> str:
    """Add the residual stages, in as many dimensions as `x` has."""
    # However many blocks there are, all together add the variance that eight do.
    gamma = RESIDUAL_GAMMA * (8 / sum(depths)) ** 0.5
    for stage, (width, depth) in enumerate(zip(RESNET_WIDTHS, depths, strict=True), start=1):
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


# ResNet-18 in three dimensions (Tran et al. 2018, arXiv:1711.11248, "R3D"), torchvision's r3d_18.

KINETICS_CLASSES = 400


def resnet3d(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.conv_bn_relu("conv1", net.data, 64, kernel=(3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3))
    x = stages(net, x, basic, (2, 2, 2, 2))
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool", x)), KINETICS_CLASSES)


# Inception v3 (Szegedy et al. 2015, arXiv:1512.00567) as torchvision has it, without its auxiliary head.

INCEPTION_EPSILON = 1e-3  # of the batch norms, torchvision/models/inception.py

Branch = tuple[tuple[int, "Extent"], ...]
"""Channels and kernel of consecutive convolutions."""

ROW, COLUMN = (1, 7), (7, 1)


def inception(net: GraphBuilder) -> str:
    """Add the layers and return the name of the logits."""
    x = net.conv_bn_relu("conv1a", net.data, 32, kernel=3, stride=2, epsilon=INCEPTION_EPSILON)
    x = net.conv_bn_relu("conv2a", x, 32, kernel=3, epsilon=INCEPTION_EPSILON)
    x = net.conv_bn_relu("conv2b", x, 64, kernel=3, padding=1, epsilon=INCEPTION_EPSILON)
    x = net.max_pool("pool1", x, kernel=3, stride=2)
    x = net.conv_bn_relu("conv3b", x, 80, kernel=1, epsilon=INCEPTION_EPSILON)
    x = net.conv_bn_relu("conv4a", x, 192, kernel=3, epsilon=INCEPTION_EPSILON)
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
    """Add a module two of whose branches end in parallel 1x3 and 3x1 convolutions."""
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
    return net.conv_bn_relu(last, x, channels, kernel=kernel, stride=stride, epsilon=INCEPTION_EPSILON)


def _pooled(net: GraphBuilder, name: str, x: str, channels: int) -> str:
    pool = net.average_pool(f"{name}_pool", x, kernel=3, padding=1)
    return _same(net, f"{name}_pool_conv", pool, channels, 1)


def _same(net: GraphBuilder, name: str, x: str, channels: int, kernel: Extent) -> str:
    """Add a convolution that keeps height and width."""
    padding = kernel // 2 if isinstance(kernel, int) else tuple(k // 2 for k in kernel)
    return net.conv_bn_relu(name, x, channels, kernel=kernel, padding=padding, epsilon=INCEPTION_EPSILON)

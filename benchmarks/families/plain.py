"""Plain and grouped convolutional networks: AlexNet, DenseNet, ResNeXt, RegNetY, ConvNeXt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchmarks.families.graph import Net


def alexnet(net: Net) -> str:
    """AlexNet as torchvision has it (arXiv:1404.5997), with its Dropout nodes."""
    x = net.conv("conv1", net.data, 64, bias=True, kernel=11, stride=4, padding=2)
    x = net.max_pool("pool1", net.relu("relu1", x), kernel=3, stride=2)
    x = net.relu("relu2", net.conv("conv2", x, 192, bias=True, kernel=5, padding=2))
    x = net.max_pool("pool2", x, kernel=3, stride=2)
    for i, channels in enumerate((384, 256, 256), start=3):
        x = net.relu(f"relu{i}", net.conv(f"conv{i}", x, channels, bias=True, kernel=3, padding=1))
    x = net.flatten("flatten", net.max_pool("pool5", x, kernel=3, stride=2))
    for i in (6, 7):
        x = net.relu(f"relu{i}", net.dense(f"fc{i}", net.unary("Dropout", f"drop{i}", x), 4096))
    return net.dense("fc8", x, 1000)


def densenet_121(net: Net) -> str:
    """DenseNet-121 (arXiv:1608.06993): each layer sees all before it, behind a norm of its own."""
    x = net.norm_conv("stem", net.data, 64, 7, 2)
    x = net.max_pool("pool1", x, kernel=3, stride=2, padding=1)
    for i, depth in enumerate((6, 12, 24, 16)):
        for j in range(depth):
            name = f"d{i}l{j}"
            y = net.relu(f"{name}_relu", net.batch_norm(f"{name}_bn", x))
            y = net.norm_conv(f"{name}_in", y, 128, 1)
            x = net.concat(f"{name}_join", x, net.conv(f"{name}_out", y, 32, kernel=3, padding=1))
        x = net.relu(f"t{i}_relu", net.batch_norm(f"t{i}_bn", x))
        if i < 3:
            x = net.conv(f"t{i}_conv", x, net.channels(x) // 2, kernel=1)
            x = net.average_pool(f"t{i}_pool", x, kernel=2, stride=2)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool", x)), 1000)


def resnext_50(net: Net) -> str:
    """ResNeXt-50 32x4d (arXiv:1611.05431): grouped 3x3 convolutions of four channels."""
    x = net.norm_conv("stem", net.data, 64, 7, 2)
    x = net.max_pool("pool1", x, kernel=3, stride=2, padding=1)
    for i, (inner, channels, depth) in enumerate(
        ((128, 256, 3), (256, 512, 4), (512, 1024, 6), (1024, 2048, 3))
    ):
        for j in range(depth):
            stride = 2 if i and not j else 1
            x = _grouped(net, f"s{i}b{j}", x, inner, channels, 32, stride, 0)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool", x)), 1000)


def regnety_400mf(net: Net) -> str:
    """RegNetY-400MF (arXiv:2003.13678): groups of eight channels, squeeze-and-excite."""
    x = net.norm_conv("stem", net.data, 32, 3, 2)
    for i, (channels, depth) in enumerate(((48, 1), (104, 3), (208, 6), (440, 6))):
        for j in range(depth):
            squeeze = net.channels(x) // 4
            x = _grouped(net, f"s{i}b{j}", x, channels, channels, channels // 8, 1 if j else 2, squeeze)
    return net.dense("fc", net.flatten("flatten", net.global_average_pool("pool", x)), 1000)


def convnext(net: Net) -> str:
    """ConvNeXt of the smallest published size (arXiv:2201.03545): 7x7 depthwise, layer norms, GELU."""
    x = net.conv("stem", net.data, 40, bias=True, kernel=4, stride=4)
    for i, (channels, depth) in enumerate(((40, 2), (80, 2), (160, 6), (320, 2))):
        if i:
            x = _turned_norm(net, f"down{i}_norm", x)
            x = net.conv(f"down{i}", x, channels, bias=True, kernel=2, stride=2)
        for j in range(depth):
            name = f"s{i}b{j}"
            y = net.conv(f"{name}_dw", x, channels, bias=True, kernel=7, padding=3, groups=channels)
            y = net.transpose(f"{name}_last", y, 0, 2, 3, 1)
            y = net.linear(f"{name}_in", net.layer_norm(f"{name}_norm", y), 4 * channels)
            y = net.linear(f"{name}_out", net.gelu(f"{name}_gelu", y), channels)
            scale = net.constant(f"{name}.scale", np.full(channels, 0.2))
            y = net.transpose(f"{name}_first", net.binary("Mul", f"{name}_scaled", y, scale), 0, 3, 1, 2)
            x = net.add(f"{name}_add", x, y)
    x = net.flatten("flatten", net.global_average_pool("pool", x))
    return net.dense("fc", net.layer_norm("norm", x), 1000)


def _turned_norm(net: Net, name: str, x: str) -> str:
    y = net.layer_norm(name, net.transpose(f"{name}_last", x, 0, 2, 3, 1))
    return net.transpose(f"{name}_first", y, 0, 3, 1, 2)


def _grouped(
    net: Net, name: str, x: str, inner: int, channels: int, groups: int, stride: int, squeeze: int
) -> str:
    y = net.norm_conv(f"{name}_in", x, inner, 1)
    y = net.norm_conv(f"{name}_grouped", y, inner, 3, stride, groups=groups)
    if squeeze:
        y = net.squeeze_excite(f"{name}_se", y, squeeze)
    y = net.conv_bn(f"{name}_out", y, channels, kernel=1, gamma=0.3)
    if stride != 1 or net.channels(x) != channels:
        x = net.conv_bn(f"{name}_short", x, channels, kernel=1, stride=stride)
    return net.relu(f"{name}_relu", net.add(f"{name}_add", x, y))

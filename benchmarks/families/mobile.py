"""Networks of inverted residuals: EfficientNet, MobileNet-v3, ShuffleNet, and a small one for keywords."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchmarks.families.graph import Net


_B0 = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Stages of EfficientNet-B0: expansion, channels, depth, first stride, kernel."""


def efficientnet_b0(net: Net) -> str:
    """EfficientNet-B0 (arXiv:1905.11946, table 1): squeeze-and-excite, SiLU, 5x5 depthwise."""
    x = net.norm_conv("stem", net.data, 32, 3, 2, act="silu")
    x = _stages(net, x, _B0, "silu", squeezes=True)
    return _head(net, net.norm_conv("head", x, 1280, 1, act="silu"))


def efficientnet_lite0(net: Net) -> str:
    """EfficientNet-Lite0: B0 without squeeze-and-excite, and with ReLU6 (TensorFlow's repository `tpu`)."""
    x = net.norm_conv("stem", net.data, 32, 3, 2, act="relu6")
    return _head(net, net.norm_conv("head", _stages(net, x, _B0), 1280, 1, act="relu6"))


def mobilenet_v2(net: Net) -> str:
    """MobileNet-v2 (arXiv:1801.04381, table 2): inverted residuals, ReLU6."""
    x = net.norm_conv("stem", net.data, 32, 3, 2, act="relu6")
    stages = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 32, 3, 2, 3),
        (6, 64, 4, 2, 3),
        (6, 96, 3, 1, 3),
        (6, 160, 3, 2, 3),
        (6, 320, 1, 1, 3),
    )
    return _head(net, net.norm_conv("head", _stages(net, x, stages), 1280, 1, act="relu6"))


def mobilenet_v3(net: Net) -> str:
    """MobileNet-v3 large (arXiv:1905.02244, table 1): squeeze-and-excite, hard swish."""
    x = net.norm_conv("stem", net.data, 16, 3, 2, act="hard_swish")
    rows = (
        (3, 16, 16, 0, "Relu", 1), (3, 64, 24, 0, "Relu", 2), (3, 72, 24, 0, "Relu", 1),
        (5, 72, 40, 24, "Relu", 2), (5, 120, 40, 32, "Relu", 1), (5, 120, 40, 32, "Relu", 1),
        (3, 240, 80, 0, "hard_swish", 2), (3, 200, 80, 0, "hard_swish", 1), (3, 184, 80, 0, "hard_swish", 1),
        (3, 184, 80, 0, "hard_swish", 1), (3, 480, 112, 120, "hard_swish", 1),
        (3, 672, 112, 168, "hard_swish", 1), (5, 672, 160, 168, "hard_swish", 2),
        (5, 960, 160, 240, "hard_swish", 1), (5, 960, 160, 240, "hard_swish", 1),
    )  # fmt: skip
    for i, (kernel, inner, channels, squeeze, act, stride) in enumerate(rows):
        x = _inverted(net, f"b{i}", x, inner, channels, kernel, stride, act, squeeze, "HardSigmoid")
    x = net.norm_conv("last", x, 960, 1, act="hard_swish")
    x = net.flatten("flatten", net.global_average_pool("pool", x))
    x = net.hard_swish("fc1_act", net.dense("fc1", x, 1280))
    return net.dense("fc2", x, 1000)


def shufflenet_v2(net: Net) -> str:
    """ShuffleNet-v2 1.0 (arXiv:1807.11164): channels are split, joined and shuffled."""
    x = net.norm_conv("stem", net.data, 24, 3, 2)
    x = net.max_pool("pool1", x, kernel=3, stride=2, padding=1)
    for i, (channels, depth) in enumerate(((116, 4), (232, 8), (464, 4))):
        for j in range(depth):
            x = _shuffle_unit(net, f"s{i}b{j}", x, channels // 2, 2 if j == 0 else 1)
    return _head(net, net.norm_conv("head", x, 1024, 1))


def ds_cnn(net: Net) -> str:
    """A depthwise-separable network for keywords, as of MLPerf Tiny (arXiv:2106.07597), on 49 x 10 MFCCs."""
    x = net.conv_bn_relu("stem", net.data, 64, kernel=(10, 4), stride=2, padding=(5, 1))
    for i in range(4):
        x = net.norm_conv(f"dw{i}", x, 64, 3, groups=64)
        x = net.norm_conv(f"pw{i}", x, 64, 1)
    return _head(net, x, 12)


def _stages(
    net: Net,
    x: str,
    stages: Sequence[tuple[int, int, int, int, int]],
    act: str = "relu6",
    *,
    squeezes: bool = False,
) -> str:
    """Add inverted residuals: (expansion, channels, depth, first stride, kernel) of each stage."""
    for i, (expand, channels, depth, stride, kernel) in enumerate(stages):
        for j in range(depth):
            width, step = net.channels(x), stride if j == 0 else 1
            squeeze = width // 4 if squeezes else 0
            x = _inverted(
                net, f"s{i}b{j}", x, width * expand, channels, kernel, step, act, squeeze, "Sigmoid"
            )
    return x


def _inverted(
    net: Net,
    name: str,
    x: str,
    inner: int,
    channels: int,
    kernel: int,
    stride: int,
    act: str,
    squeeze: int,
    gate: str,
) -> str:
    width = net.channels(x)
    y = x if inner == width else net.norm_conv(f"{name}_expand", x, inner, 1, act=act)
    y = net.norm_conv(f"{name}_dw", y, inner, kernel, stride, act=act, groups=inner)
    if squeeze:
        y = net.squeeze_excite(f"{name}_se", y, squeeze, "silu" if act == "silu" else "Relu", gate)
    residual = stride == 1 and width == channels
    y = net.conv_bn(f"{name}_project", y, channels, kernel=1, gamma=0.3 if residual else 1.0)
    return net.add(f"{name}_add", x, y) if residual else y


def _shuffle_unit(net: Net, name: str, x: str, half: int, stride: int) -> str:
    if stride == 1:
        kept = net.cut(f"{name}_kept", x, 1, 0, half)
        y = net.cut(f"{name}_taken", x, 1, half, 2 * half)
    else:
        width = net.channels(x)
        kept = net.norm_conv(f"{name}_left_dw", x, width, 3, 2, act="", groups=width)
        kept = net.norm_conv(f"{name}_left_pw", kept, half, 1)
        y = x
    y = net.norm_conv(f"{name}_pw1", y, half, 1)
    y = net.norm_conv(f"{name}_dw", y, half, 3, stride, act="", groups=half)
    y = net.norm_conv(f"{name}_pw2", y, half, 1)
    y = net.concat(f"{name}_join", kept, y)
    height, width = net.shape(y)[2:]
    y = net.reshape(f"{name}_two", y, 1, 2, half, height, width)
    y = net.transpose(f"{name}_turn", y, 0, 2, 1, 3, 4)
    return net.reshape(f"{name}_shuffled", y, 1, 2 * half, height, width)


def _head(net: Net, x: str, classes: int = 1000) -> str:
    x = net.flatten("flatten", net.global_average_pool("pool", x))
    return net.dense("fc", x, classes)


def mlp(net: Net) -> str:
    """An autoencoder of dense layers that finds faults by sound, as of MLPerf Tiny."""
    x = net.data
    for i, units in enumerate((128, 128, 128, 128, 8, 128, 128, 128, 128)):
        x = net.unary("Relu", f"fc{i}_relu", net.dense(f"fc{i}", x, units))
    return net.dense("out", x, int(np.prod(net.shape(net.data)[1:])))

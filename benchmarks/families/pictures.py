"""Networks whose output is a picture, or stands for each of its places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchmarks.families.graph import Net


def unet(net: Net) -> str:
    """A U-Net (arXiv:1505.04597) of half its published widths, with batch norms and padding."""
    skips = []
    x = net.data
    for i, channels in enumerate((32, 64, 128, 256, 512)):
        if i:
            skips.append(x)
            x = net.max_pool(f"pool{i}", x, kernel=2, stride=2)
        x = _twice(net, f"down{i}", x, channels)
    for i, skip in reversed(list(enumerate(skips))):
        x = net.concat(f"join{i}", skip, net.up_conv(f"up{i}_conv", x, net.channels(skip)))
        x = _twice(net, f"up{i}", x, net.channels(skip))
    return net.unary("Sigmoid", "mask", net.conv("out", x, 1, bias=True, kernel=1))


def deeplab(net: Net) -> str:
    """DeepLab-v3's head (arXiv:1706.05587) on a short body: rates 12, 24 and 36 on 16 x 16."""
    x = net.norm_conv("stem", net.data, 32, 3, 2)
    for i, channels in enumerate((64, 128, 256)):
        x = net.norm_conv(f"body{i}", x, channels, 3, 2)
    branches = [net.norm_conv("aspp0", x, 128, 1)]
    for rate in (12, 24, 36):
        y = net.batch_norm(f"aspp{rate}_bn", net.dilated(f"aspp{rate}", x, 128, 3, rate))
        branches.append(net.relu(f"aspp{rate}_relu", y))
    pooled = net.relu("pooled_relu", net.conv("pooled", net.global_average_pool("pool", x), 128, kernel=1))
    branches.append(net.upsample("pooled_wide", pooled, net.shape(x)[2], "linear"))
    x = net.norm_conv("mix", net.concat("aspp", *branches), 128, 1)
    x = net.conv("out", net.norm_conv("refine", x, 128, 3), 21, bias=True, kernel=1)
    return net.upsample("large", x, 16, "linear")


def edsr(net: Net) -> str:
    """EDSR's baseline (arXiv:1707.02921) for twice the size, with half its blocks."""
    first = x = net.conv("head", net.data, 64, bias=True, kernel=3, padding=1)
    for i in range(8):
        y = net.relu(f"b{i}_relu", net.conv(f"b{i}_in", x, 64, bias=True, kernel=3, padding=1))
        y = net.conv(f"b{i}_out", y, 64, bias=True, kernel=3, padding=1)
        x = net.add(f"b{i}_add", x, net.binary("Mul", f"b{i}_less", y, net.constant(f"b{i}.scale", 0.1)))
    x = net.add("long", first, net.conv("body", x, 64, bias=True, kernel=3, padding=1))
    x = _shuffled(net, "up", net.conv("wide", x, 256, bias=True, kernel=3, padding=1), 2)
    return net.conv("out", x, 3, bias=True, kernel=3, padding=1)


def espcn(net: Net) -> str:
    """ESPCN (arXiv:1609.05158), three times the size: few channels at full resolution."""
    x = net.unary("Tanh", "tanh1", net.conv("conv1", net.data, 64, bias=True, kernel=5, padding=2))
    x = net.unary("Tanh", "tanh2", net.conv("conv2", x, 32, bias=True, kernel=3, padding=1))
    return _shuffled(net, "out", net.conv("conv3", x, 9, bias=True, kernel=3, padding=1), 3)


def style(net: Net) -> str:
    """Fast neural style (arXiv:1603.08155) of half its widths: reflected borders, instance norms."""
    x = _reflected(net, "c1", net.data, 16, 9, 1)
    x = _reflected(net, "c2", x, 32, 3, 2)
    x = _reflected(net, "c3", x, 64, 3, 2)
    for i in range(3):
        y = _reflected(net, f"r{i}a", x, 64, 3, 1)
        x = net.add(f"r{i}", x, _reflected(net, f"r{i}b", y, 64, 3, 1, act=""))
    x = _reflected(net, "u1", net.upsample("up1", x), 32, 3, 1)
    x = _reflected(net, "u2", net.upsample("up2", x), 16, 3, 1)
    return _reflected(net, "out", x, 3, 9, 1, norm=False, act="")


def diffusion_unet(net: Net) -> str:
    """A small diffusion U-Net (arXiv:2006.11239): group norms, SiLU, attention at the lowest resolution."""
    x = net.conv("stem", net.data, 64, bias=True, kernel=3, padding=1)
    skips = []
    for i, channels in enumerate((64, 128)):
        x = _residual(net, f"down{i}", x, channels)
        skips.append(x)
        x = net.conv(f"down{i}_half", x, channels, bias=True, kernel=3, stride=2, padding=1)
    x = _residual(net, "mid_a", x, 256)
    _, channels, height, width = net.shape(x)
    y = net.reshape("mid_flat", net.group_norm("mid_norm", x, 32), 1, channels, height * width)
    y = net.attention("mid_attention", net.transpose("mid_tokens", y, 0, 2, 1), 4)
    y = net.reshape("mid_picture", net.transpose("mid_channels", y, 0, 2, 1), 1, channels, height, width)
    x = _residual(net, "mid_b", net.add("mid_add", x, y), 256)
    for i, skip in reversed(list(enumerate(skips))):
        x = net.conv(f"up{i}_conv", net.upsample(f"up{i}_wide", x), net.channels(skip), bias=True,
                     kernel=3, padding=1)  # fmt: skip
        x = _residual(net, f"up{i}", net.concat(f"up{i}_join", x, skip), net.channels(skip))
    x = net.silu("out_silu", net.group_norm("out_norm", x, 32))
    return net.conv("out", x, 3, bias=True, kernel=3, padding=1)


def yolo(net: Net) -> str:
    """A detector as YOLOv8n is: SiLU, split blocks, pyramid pooling, three scales; boxes with scores."""
    x = net.norm_conv("c0", net.data, 16, 3, 2, act="silu")
    levels = []
    for i, (channels, depth) in enumerate(((32, 1), (64, 2), (128, 2), (256, 1))):
        x = net.norm_conv(f"c{i + 1}", x, channels, 3, 2, act="silu")
        x = _split_block(net, f"s{i + 1}", x, channels, depth, True)
        levels.append(x)
    _, p3, p4, p5 = levels
    p5 = _pyramid_pool(net, "sppf", p5, 256)
    p4 = _split_block(net, "n4", net.concat("n4_both", net.upsample("n4_up", p5), p4), 128, 1, False)
    p3 = _split_block(net, "n3", net.concat("n3_both", net.upsample("n3_up", p4), p3), 64, 1, False)
    down = net.norm_conv("o4_down", p3, 64, 3, 2, act="silu")
    o4 = _split_block(net, "o4", net.concat("o4_both", down, p4), 128, 1, False)
    down = net.norm_conv("o5_down", o4, 128, 3, 2, act="silu")
    o5 = _split_block(net, "o5", net.concat("o5_both", down, p5), 256, 1, False)
    heads = [_head(net, f"h{i}", level) for i, level in enumerate((p3, o4, o5))]
    joined = net.join("heads", 2, *heads)
    boxes = _distances(net, "boxes", net.cut("boxes_raw", joined, 1, 0, 64))
    scores = net.unary("Sigmoid", "scores", net.cut("scores_raw", joined, 1, 64, 144))
    return net.join("detections", 1, boxes, scores)


def _twice(net: Net, name: str, x: str, channels: int) -> str:
    return net.norm_conv(f"{name}_b", net.norm_conv(f"{name}_a", x, channels, 3), channels, 3)


def _shuffled(net: Net, name: str, x: str, factor: int) -> str:
    batch, channels, height, width = net.shape(x)
    shape = (batch, channels // factor**2, height * factor, width * factor)
    return net.op("DepthToSpace", f"{name}_shuffle", [x], shape, blocksize=factor, mode="CRD")


def _reflected(
    net: Net,
    name: str,
    x: str,
    channels: int,
    kernel: int,
    stride: int,
    norm: bool = True,
    act: str = "Relu",
) -> str:
    batch, inner, height, width = net.shape(x)
    pad = kernel // 2
    pads = net.constant(f"{name}.pads", [0, 0, pad, pad] * 2, np.int64)
    shape = (batch, inner, height + 2 * pad, width + 2 * pad)
    y = net.op("Pad", f"{name}_pad", [x, pads], shape, mode="reflect")
    y = net.conv(f"{name}_conv", y, channels, bias=True, kernel=kernel, stride=stride)
    if norm:
        scale = [net.constant(f"{name}.one", np.ones(channels)),
                 net.constant(f"{name}.zero", np.zeros(channels))]  # fmt: skip
        y = net.op("InstanceNormalization", f"{name}_norm", [y, *scale], net.shape(y))
    return net.activate(act, f"{name}_act", y)


def _residual(net: Net, name: str, x: str, channels: int) -> str:
    y = net.silu(f"{name}_silu1", net.group_norm(f"{name}_norm1", x, 32))
    y = net.conv(f"{name}_conv1", y, channels, bias=True, kernel=3, padding=1)
    y = net.silu(f"{name}_silu2", net.group_norm(f"{name}_norm2", y, 32))
    y = net.conv(f"{name}_conv2", y, channels, bias=True, kernel=3, padding=1)
    if net.channels(x) != channels:
        x = net.conv(f"{name}_short", x, channels, bias=True, kernel=1)
    return net.add(f"{name}_add", x, y)


def _split_block(net: Net, name: str, x: str, channels: int, depth: int, residual: bool) -> str:
    half = channels // 2
    y = net.norm_conv(f"{name}_in", x, channels, 1, act="silu")
    parts = [net.cut(f"{name}_a", y, 1, 0, half), net.cut(f"{name}_b", y, 1, half, channels)]
    for i in range(depth):
        inner = net.norm_conv(f"{name}_{i}a", parts[-1], half, 3, act="silu")
        inner = net.norm_conv(f"{name}_{i}b", inner, half, 3, act="silu")
        parts.append(net.add(f"{name}_{i}add", parts[-1], inner) if residual else inner)
    return net.norm_conv(f"{name}_out", net.concat(f"{name}_join", *parts), channels, 1, act="silu")


def _pyramid_pool(net: Net, name: str, x: str, channels: int) -> str:
    parts = [net.norm_conv(f"{name}_in", x, channels // 2, 1, act="silu")]
    for i in range(3):
        parts.append(net.max_pool(f"{name}_pool{i}", parts[-1], kernel=5, padding=2))
    return net.norm_conv(f"{name}_out", net.concat(f"{name}_join", *parts), channels, 1, act="silu")


def _head(net: Net, name: str, x: str) -> str:
    ends = []
    for what, inner, outer in (("box", 64, 64), ("class", 80, 80)):
        y = net.norm_conv(f"{name}_{what}a", x, inner, 3, act="silu")
        y = net.norm_conv(f"{name}_{what}b", y, inner, 3, act="silu")
        ends.append(net.conv(f"{name}_{what}", y, outer, bias=True, kernel=1))
    both = net.concat(f"{name}_join", *ends)
    _, channels, height, width = net.shape(both)
    return net.reshape(f"{name}_flat", both, 1, channels, height * width)


def _distances(net: Net, name: str, x: str) -> str:
    """Return the mean of each of four distributions over sixteen distances."""
    places = net.shape(x)[2]
    y = net.transpose(f"{name}_turned", net.reshape(f"{name}_bins", x, 1, 4, 16, places), 0, 2, 1, 3)
    y = net.unary("Softmax", f"{name}_softmax", y, axis=1)
    weight = net.constant(f"{name}.weight", np.arange(16).reshape(1, 16, 1, 1))
    shape = (1, 1, 4, places)
    return net.reshape(
        name, net.op("Conv", f"{name}_mean", [y, weight], shape, kernel_shape=[1, 1]), 1, 4, places
    )

"""Networks of unusual convolutions: of one channel, transposed, over volumes, on tiny maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.families.graph import Net


def pitch(net: Net) -> str:
    """An audio front end and a small body, as Basic Pitch (arXiv:2203.09893) has them.

    An octave after the other is halved by a filter of 256 taps and analysed by 36 others; then few channels
    on a picture of time and pitch.
    """
    sound, octaves = net.data, []
    for i in range(4):
        if i:
            sound = _along(net, f"half{i}", sound, 1, 256, 2)
        octaves.append(net.unary("Abs", f"octave{i}", _along(net, f"bank{i}", sound, 36, 256, 128 >> i)))
    steps = min(net.shape(each)[3] for each in octaves)
    picture = net.join(
        "pitches", 1, *(net.cut(f"cut{i}", each, 3, 0, steps) for i, each in enumerate(octaves))
    )
    x = net.transpose("picture", picture, 0, 2, 3, 1)
    x = net.relu("harmonics", net.conv("harmonics_conv", x, 8, bias=True, kernel=(3, 3), padding=(1, 1)))
    y = net.relu("contour1", net.conv("contour1_conv", x, 8, bias=True, kernel=(3, 39), padding=(1, 19)))
    contour = net.unary("Sigmoid", "contour", net.conv("contour_conv", y, 1, bias=True, kernel=5, padding=2))
    y = net.relu("note1", net.conv("note1_conv", contour, 32, bias=True, kernel=7, padding=3))
    return net.unary("Sigmoid", "note", net.conv("note_conv", y, 1, bias=True, kernel=(7, 3), padding=(3, 1)))


def conformer(net: Net) -> str:
    """Four layers of a Conformer (arXiv:2005.08100), 144 wide: attention, and convolutions of 31 taps."""
    x = net.linear("in", net.data, 144)
    for i in range(4):
        x = _half_step(net, f"l{i}_first", x)
        x = net.add(f"l{i}_mixed", x, net.attention(f"l{i}_attn", net.layer_norm(f"l{i}_norm", x), 4))
        x = net.add(
            f"l{i}_moved", x, _convolution(net, f"l{i}_conv", net.layer_norm(f"l{i}_norm_conv", x), 31)
        )
        x = net.layer_norm(f"l{i}_out", _half_step(net, f"l{i}_last", x))
    return x


def dcgan(net: Net) -> str:
    """DCGAN's generator (arXiv:1511.06434) of half its widths: transposed convolutions of 4x4, stride 2."""
    x = _turned(net, "t0", net.data, 512, 1, 0)
    for i, channels in enumerate((256, 128, 64)):
        x = _turned(net, f"t{i + 1}", net.relu(f"r{i}", net.batch_norm(f"n{i}", x)), channels, 2, 1)
    x = _turned(net, "t4", net.relu("r3", net.batch_norm("n3", x)), 3, 2, 1)
    return net.unary("Tanh", "picture", x)


def unet_3d(net: Net) -> str:
    """A U-Net over volumes (arXiv:1606.06650) of a quarter of its widths."""
    x = _twice(net, "down0", net.data, 16)
    skips = []
    for i, channels in enumerate((32, 64)):
        skips.append(x)
        shape = (*net.shape(x)[:2], *(extent // 2 for extent in net.shape(x)[2:]))
        x = net.op("MaxPool", f"pool{i}", [x], shape, kernel_shape=[2] * 3, strides=[2] * 3)
        x = _twice(net, f"down{i + 1}", x, channels)
    for i, skip in reversed(list(enumerate(skips))):
        inner = net.channels(x)
        weight = net.weight(f"up{i}.weight", inner, inner, 2, 2, 2, fan_in=inner)
        shape = (1, inner, *net.shape(skip)[2:])
        x = net.op("ConvTranspose", f"up{i}", [x, weight], shape, kernel_shape=[2] * 3, strides=[2] * 3)
        x = _twice(net, f"up{i}_conv", net.concat(f"join{i}", skip, x), net.channels(skip))
    return _volume(net, "out", x, 2, 1)


def rcan(net: Net) -> str:
    """RCAN (arXiv:1807.02758), two groups of four blocks: many 3x3 of 64 channels, gates by channel."""
    first = x = net.conv("head", net.data, 64, bias=True, kernel=3, padding=1)
    for group in range(2):
        start = x
        for i in range(4):
            name = f"g{group}b{i}"
            y = net.relu(f"{name}_relu", net.conv(f"{name}_a", x, 64, bias=True, kernel=3, padding=1))
            y = net.conv(f"{name}_b", y, 64, bias=True, kernel=3, padding=1)
            x = net.add(f"{name}_add", x, net.squeeze_excite(f"{name}_gate", y, 4))
        x = net.add(f"g{group}_add", start, net.conv(f"g{group}", x, 64, bias=True, kernel=3, padding=1))
    x = net.add("long", first, net.conv("body", x, 64, bias=True, kernel=3, padding=1))
    wide = net.conv("wide", x, 256, bias=True, kernel=3, padding=1)
    _, channels, height, width = net.shape(wide)
    shape = (1, channels // 4, height * 2, width * 2)
    x = net.op("DepthToSpace", "shuffle", [wide], shape, blocksize=2, mode="CRD")
    return net.conv("out", x, 3, bias=True, kernel=3, padding=1)


def bifpn(net: Net) -> str:
    """Two rounds of EfficientDet's BiFPN (arXiv:1911.09070), 64 wide, down to maps of 4x4."""
    levels = [net.norm_conv("p0", net.data, 64, 3, 4, act="silu")]
    for i in range(1, 4):
        levels.append(net.norm_conv(f"p{i}", levels[-1], 64, 3, 2, act="silu"))
    for turn in range(2):
        down = [levels[-1]]
        for i in (2, 1, 0):
            mixed = net.add(f"t{turn}d{i}_add", levels[i], net.upsample(f"t{turn}d{i}_up", down[0]))
            down.insert(0, net.norm_conv(f"t{turn}d{i}", net.silu(f"t{turn}d{i}_silu", mixed), 64, 3, act=""))
        up = [down[0]]
        for i in (1, 2, 3):
            pooled = net.max_pool(f"t{turn}u{i}_pool", up[-1], kernel=2, stride=2)
            mixed = net.add(f"t{turn}u{i}_add", net.add(f"t{turn}u{i}_in", levels[i], down[i]), pooled)
            up.append(net.norm_conv(f"t{turn}u{i}", net.silu(f"t{turn}u{i}_silu", mixed), 64, 3, act=""))
        levels = up
    flat = [net.reshape(f"flat{i}", each, 1, 64, net.shape(each)[2] * net.shape(each)[3]) for i, each in
            enumerate(levels)]  # fmt: skip
    return net.join("all", 2, *flat)


def _along(net: Net, name: str, x: str, channels: int, taps: int, stride: int) -> str:
    """Add a convolution along the last of two axes."""
    return net.conv(name, x, channels, kernel=(1, taps), stride=(1, stride))


def _half_step(net: Net, name: str, x: str) -> str:
    width = net.shape(x)[2]
    y = net.linear(f"{name}_in", net.layer_norm(f"{name}_norm", x), 4 * width)
    y = net.linear(f"{name}_out", net.silu(f"{name}_silu", y), width)
    less = net.binary("Mul", f"{name}_less", y, net.constant(f"{name}.half", 0.5))
    return net.add(f"{name}_add", x, less)


def _convolution(net: Net, name: str, x: str, taps: int) -> str:
    """Add a Conformer's module of convolutions on [1, T, C]."""
    width = net.shape(x)[2]
    y = net.conv(f"{name}_in", net.transpose(f"{name}_turned", x, 0, 2, 1), 2 * width, bias=True, kernel=1)
    gate = net.unary("Sigmoid", f"{name}_gate", net.cut(f"{name}_b", y, 1, width, 2 * width))
    y = net.binary("Mul", f"{name}_gated", net.cut(f"{name}_a", y, 1, 0, width), gate)
    y = net.conv(f"{name}_deep", y, width, groups=width, kernel=taps, padding=taps // 2)
    y = net.silu(f"{name}_silu", net.batch_norm(f"{name}_norm", y))
    y = net.conv(f"{name}_out", y, width, bias=True, kernel=1)
    return net.transpose(f"{name}_back", y, 0, 2, 1)


def _turned(net: Net, name: str, x: str, channels: int, stride: int, pad: int) -> str:
    """Add a transposed convolution of 4x4."""
    inner = net.channels(x)
    weight = net.weight(f"{name}.weight", inner, channels, 4, 4, fan_in=16 * inner // stride**2)
    shape = (1, channels, *((extent - 1) * stride + 4 - 2 * pad for extent in net.shape(x)[2:]))
    return net.op(
        "ConvTranspose", name, [x, weight], shape, kernel_shape=[4] * 2, strides=[stride] * 2, pads=[pad] * 4
    )


def _volume(net: Net, name: str, x: str, channels: int, taps: int) -> str:
    """Add a convolution over three axes that keeps the extents."""
    inner = net.channels(x)
    weight = net.weight(f"{name}.weight", channels, inner, taps, taps, taps, fan_in=taps**3 * inner)
    shape = (1, channels, *net.shape(x)[2:])
    return net.op("Conv", name, [x, weight], shape, kernel_shape=[taps] * 3, pads=[taps // 2] * 6)


def _twice(net: Net, name: str, x: str, channels: int) -> str:
    for part in "ab":
        x = net.relu(
            f"{name}{part}_relu",
            net.batch_norm(f"{name}{part}_norm", _volume(net, name + part, x, channels, 3)),
        )
    return x

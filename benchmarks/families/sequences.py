"""Attention, audio and recurrent networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchmarks.families.graph import Net


def deit_tiny(net: Net) -> str:
    """DeiT tiny (arXiv:2012.12877): twelve layers of width 192 over 196 patches and a class token."""
    x = net.conv("patches", net.data, 192, bias=True, kernel=16, stride=16)
    _, width, rows, columns = net.shape(x)
    x = net.transpose("tokens", net.reshape("flat", x, 1, width, rows * columns), 0, 2, 1)
    x = net.join("with_class", 1, net.weight("class_token", 1, 1, width, fan_in=1), x)
    x = net.op("Add", "placed", [x, net.weight("positions", *net.shape(x), fan_in=100)], net.shape(x))
    for i in range(12):
        x = _layer(net, f"l{i}", x, 3, "gelu")
    x = net.reshape("class", net.cut("first", net.layer_norm("norm", x), 1, 0, 1), 1, width)
    return net.dense("head", x, 1000)


def bert_small(net: Net) -> str:
    """A small BERT (arXiv:1908.08962): four layers of width 256 over 128 words."""
    tokens = net.shape(net.data)[1]
    words = net.weight("words", net.tokens, 256, fan_in=1)
    x = net.op("Gather", "embedded", [words, net.data], (1, tokens, 256), axis=0)
    x = net.op("Add", "placed", [x, net.weight("positions", 1, tokens, 256, fan_in=1)], net.shape(x))
    x = net.layer_norm("norm", x)
    for i in range(4):
        name = f"l{i}"
        x = net.layer_norm(f"{name}_norm1", net.add(f"{name}_add1", x, net.attention(f"{name}_attn", x, 4)))
        y = net.linear(f"{name}_out", net.gelu(f"{name}_gelu", net.linear(f"{name}_in", x, 1024)), 256)
        x = net.layer_norm(f"{name}_norm2", net.add(f"{name}_add2", x, y))
    pooled = net.reshape("first", net.cut("first_cut", x, 1, 0, 1), 1, 256)
    return net.dense("classes", net.unary("Tanh", "pooled", net.dense("pool", pooled, 256)), 2)


def mixer(net: Net) -> str:
    """A small MLP-Mixer (arXiv:2105.01601): dense layers over places, then over channels."""
    x = net.conv("patches", net.data, 256, bias=True, kernel=16, stride=16)
    _, width, rows, columns = net.shape(x)
    x = net.transpose("tokens", net.reshape("flat", x, 1, width, rows * columns), 0, 2, 1)
    for i in range(6):
        y = net.transpose(f"l{i}_turned", net.layer_norm(f"l{i}_norm1", x), 0, 2, 1)
        y = net.linear(f"l{i}_a", net.gelu(f"l{i}_gelu1", net.linear(f"l{i}_b", y, 128)), rows * columns)
        x = net.add(f"l{i}_add1", x, net.transpose(f"l{i}_back", y, 0, 2, 1))
        y = net.linear(f"l{i}_c", net.layer_norm(f"l{i}_norm2", x), 1024)
        x = net.add(f"l{i}_add2", x, net.linear(f"l{i}_d", net.gelu(f"l{i}_gelu2", y), width))
    mean = net.op("ReduceMean", "mean", [net.layer_norm("norm", x)], (1, width), axes=[1], keepdims=0)
    return net.dense("head", mean, 1000)


def wav2vec_convs(net: Net) -> str:
    """The feature encoder of wav2vec 2.0 (arXiv:2006.11477), half as wide, on half a second of sound."""
    x = net.data
    for i, (kernel, stride) in enumerate(((10, 5), *[(3, 2)] * 4, (2, 2), (2, 2))):
        x = net.conv(f"conv{i}", x, 256, kernel=kernel, stride=stride)
        if i == 0:
            x = net.group_norm("norm0", x, 256)
        x = net.gelu(f"gelu{i}", x)
    return net.layer_norm("norm", net.transpose("steps", x, 0, 2, 1))


def wavenet(net: Net) -> str:
    """A WaveNet (arXiv:1609.03499): dilated causal convolutions, gated; two stacks of eight."""
    x = _causal(net, "stem", net.data, 64, 1)
    skips = ""
    for i in range(16):
        rate = 2 ** (i % 8)
        gates = _causal(net, f"l{i}", x, 128, rate)
        gate = net.unary("Sigmoid", f"l{i}_gate", net.cut(f"l{i}_b", gates, 1, 64, 128))
        value = net.unary("Tanh", f"l{i}_value", net.cut(f"l{i}_a", gates, 1, 0, 64))
        y = net.binary("Mul", f"l{i}_gated", value, gate)
        skip = net.conv(f"l{i}_skip", y, 64, bias=True, kernel=1)
        skips = net.add(f"l{i}_skips", skips, skip) if skips else skip
        x = net.add(f"l{i}_add", x, net.conv(f"l{i}_out", y, 64, bias=True, kernel=1))
    x = net.relu("relu2", net.conv("post", net.relu("relu1", skips), 64, bias=True, kernel=1))
    return net.conv("out", x, 256, bias=True, kernel=1)


def lstm(net: Net) -> str:
    """Two layers of LSTM, 128 wide, over 50 steps, and a dense layer on the steps."""
    x = net.recurrent("LSTM", "l0", net.data, 128, 4)
    return net.linear("out", net.recurrent("LSTM", "l1", x, 128, 4), 32)


def gru(net: Net) -> str:
    """Two layers of GRU in both directions, 96 wide, over 50 steps, and a dense layer on the steps."""
    x = net.recurrent("GRU", "l0", net.data, 96, 3, both=True)
    return net.linear("out", net.recurrent("GRU", "l1", x, 96, 3, both=True), 32)


def crnn(net: Net) -> str:
    """CRNN (arXiv:1507.05717): convolutions over a line of text, then an LSTM in both directions."""
    x = net.data
    plan: list[tuple[int, int | tuple[int, int]]]
    plan = [(64, (2, 2)), (128, (2, 2)), (256, 0), (256, (2, 1)), (512, 0), (512, (2, 1))]
    for i, (channels, pool) in enumerate(plan):
        x = net.norm_conv(f"conv{i}", x, channels, 3)
        if pool:
            x = net.max_pool(f"pool{i}", x, kernel=pool, stride=pool)
    x = net.relu("last_relu", net.conv_bn("last", x, 512, kernel=2))
    _, channels, _, columns = net.shape(x)
    x = net.transpose("turned", net.reshape("columns", x, 1, channels, columns), 2, 0, 1)
    x = net.recurrent("LSTM", "lstm", x, 128, 4, both=True)
    return net.unary("Softmax", "letters", net.linear("out", x, 37), axis=2)


def _layer(net: Net, name: str, x: str, heads: int, act: str) -> str:
    width = net.shape(x)[2]
    y = net.attention(f"{name}_attention", net.layer_norm(f"{name}_norm1", x), heads)
    x = net.add(f"{name}_add1", x, y)
    y = net.linear(f"{name}_in", net.layer_norm(f"{name}_norm2", x), 4 * width)
    return net.add(f"{name}_add2", x, net.linear(f"{name}_out", net.activate(act, f"{name}_act", y), width))


def _causal(net: Net, name: str, x: str, channels: int, rate: int) -> str:
    """Add a convolution of two taps that sees nothing of the future."""
    batch, inner, steps = net.shape(x)
    pads = net.constant(f"{name}.pads", [0, 0, rate, 0, 0, 0], np.int64)
    y = net.op("Pad", f"{name}_pad", [x, pads], (batch, inner, steps + rate))
    weight = net.weight(f"{name}.weight", channels, inner, 2, fan_in=2 * inner)
    bias = net.weight(f"{name}.bias", channels, fan_in=400)
    shape = (batch, channels, steps)
    return net.op("Conv", f"{name}_conv", [y, weight, bias], shape, kernel_shape=[2], dilations=[rate])

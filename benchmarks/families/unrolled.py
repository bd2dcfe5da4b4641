"""Networks of hundreds of small functions: what exporters make of a layer that Python calls step by step."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.families.graph import Net
from benchmarks.families.table import Network

_WINDOW = 21  # characters around the one that is judged
_CONVOLUTIONS = [200] * 8 + [150] * 3 + [100]  # channels of the convolutions over 1, 2 … 12 characters


def each_step(net: Net, name: str, x: str, layer: Callable[[str, str], str]) -> str:
    """Add a layer for each step of [1, T, ...], as Keras 3 exports `TimeDistributed` of a known length."""
    order = (1, 0, *range(2, len(net.shape(x))))
    turned = net.transpose(f"{name}_turned", x, *order)
    axis = net.constant(f"{name}.axis", [0], int)
    outputs = []
    for step in range(net.shape(turned)[0]):
        own = f"{name}_{step}"
        piece = net.cut(f"{own}_piece", turned, 0, step, step + 1)
        inner = net.op("Squeeze", f"{own}_squeezed", [piece, axis], net.shape(turned)[1:])
        outer = layer(own, inner)
        outputs.append(net.op("Unsqueeze", f"{own}_stacked", [outer, axis], (1, *net.shape(outer))))
    stacked = net.join(f"{name}_stack", 0, *outputs)
    return net.transpose(name, stacked, 1, 0, *range(2, len(net.shape(stacked))))


def _dense(net: Net, units: int, shared: str, act: str = "") -> Callable[[str, str], str]:
    """Return a layer whose weights are the same in each step."""
    made: list[str] = []

    def layer(name: str, x: str) -> str:
        if not made:
            inner = net.shape(x)[-1]
            made.append(net.weight(f"{shared}.weight", inner, units))
            made.append(net._normal(f"{shared}.bias", units, 0.0, 0.02))
        product = net.matmul(f"{name}_product", x, made[0])
        return net.activate(act, f"{name}_act", net.op("Add", name, [product, made[1]], net.shape(product)))

    return layer


def deepcut(net: Net) -> str:
    """Words of Thai text (Kittinaradorn et al., DeepCut, 2017): 186 steps of twelve dense layers."""
    table = net.weight("table", 178, 32)
    x = net.op("Gather", "embedded", [table, net.data], (1, _WINDOW, 32))
    net._shapes["rows"] = (1, 32, _WINDOW)
    rows = net.transpose("rows", x, 0, 2, 1)
    grams = []
    for width, channels in enumerate(_CONVOLUTIONS, 1):
        name = f"gram{width}"
        y = net.conv(name, rows, channels, bias=True, kernel=width)
        y = net.transpose(f"{name}_steps", net.relu(f"{name}_relu", y), 0, 2, 1)
        y = each_step(net, f"{name}_dense", y, _dense(net, 5, f"{name}_shared"))
        pads = net.constant(f"{name}.pads", [0, 0, 0, 0, width - 1, 0], int)
        grams.append(net.op("Pad", f"{name}_padded", [y, pads], (1, _WINDOW, 5)))
    most = net.op("Max", "most", grams, (1, _WINDOW, 5))
    both = net.join("both", 2, x, most)
    flat = net.reshape("flat", both, 1, _WINDOW * 37)
    hidden = net.unary("Relu", "hidden_relu", net.linear("hidden", flat, 100))
    return net.unary("Sigmoid", "probability", net.linear("last", hidden, 1))


def _conv(net: Net, channels: int, shared: str) -> Callable[[str, str], str]:
    """Return a convolution with ReLU whose weights are the same in each step."""
    made: list[str] = []

    def layer(name: str, x: str) -> str:
        batch, inner, *spatial = net.shape(x)
        if not made:
            made.append(net._he_normal(f"{shared}.weight", (channels, inner, 3, 3)))
            made.append(net._normal(f"{shared}.bias", channels, 0.0, 0.02))
        shape = (batch, channels, *spatial)
        return net.unary(
            "Relu", f"{name}_relu", net.op("Conv", name, [x, *made], shape, kernel_shape=[3, 3], pads=[1] * 4)
        )

    return layer


def video(net: Net) -> str:
    """A small convolutional network on each of 16 pictures, then an LSTM: five layers of 16 steps."""
    x = each_step(net, "conv1", net.data, _conv(net, 16, "shared1"))
    x = each_step(net, "pool1", x, lambda name, y: net.max_pool(name, y, kernel=2, stride=2))
    x = each_step(net, "conv2", x, _conv(net, 32, "shared2"))
    x = each_step(net, "pool2", x, lambda name, y: net.max_pool(name, y, kernel=2, stride=2))
    batch, steps, *rest = net.shape(x)
    flat = net.reshape("flat", x, batch, steps, rest[0] * rest[1] * rest[2])
    x = each_step(net, "dense", flat, _dense(net, 64, "shared3", "Relu"))
    x = net.recurrent("LSTM", "lstm", net.transpose("time", x, 1, 0, 2), 32, 4)
    return net.linear("logits", x, 10)


def written_out(net: Net) -> str:
    """An LSTM of 40 steps as a loop of Python leaves it: products, slices and gates of each step."""
    steps, _, inner = net.shape(net.data)
    hidden = 32
    weights = [net.weight("wx", inner, 4 * hidden), net.weight("wh", hidden, 4 * hidden)]
    bias = net._normal("bias", 4 * hidden, 0.0, 0.02)
    h = c = ""
    outputs = []
    axis = net.constant("axis", [0], int)
    for step in range(steps):
        own = f"step{step}"
        x = net.op(
            "Squeeze", f"{own}_x", [net.cut(f"{own}_cut", net.data, 0, step, step + 1), axis], (1, inner)
        )
        sums = net.op("Add", f"{own}_sums", [net.matmul(f"{own}_wx", x, weights[0]), bias], (1, 4 * hidden))
        if h:
            sums = net.binary("Add", f"{own}_both", sums, net.matmul(f"{own}_wh", h, weights[1]))
        i, f, g, o = (
            net.cut(f"{own}_{gate}", sums, 1, hidden * place, hidden * place + hidden)
            for place, gate in enumerate("ifgo")
        )
        i, f, o = (net.unary("Sigmoid", f"{gate}_open", gate) for gate in (i, f, o))
        new = net.binary("Mul", f"{own}_new", i, net.unary("Tanh", f"{own}_gt", g))
        c = net.binary("Add", f"{own}_c", net.binary("Mul", f"{own}_kept", f, c), new) if c else new
        h = net.binary("Mul", f"{own}_h", o, net.unary("Tanh", f"{own}_ct", c))
        outputs.append(net.op("Unsqueeze", f"{own}_out", [h, axis], (1, 1, hidden)))
    return net.linear("logits", net.join("all", 0, *outputs), 10)


def wide(net: Net) -> str:
    """Two hundred small functions, no two of one shape: statistics of windows of one signal."""
    length = net.shape(net.data)[1]
    found = []
    kinds = ("Tanh", "Sigmoid", "Exp", "Softplus", "Abs")
    reduces = ("ReduceMax", "ReduceMean", "ReduceSum", "ReduceL2")
    for number in range(100):
        own = f"w{number}"
        piece = net.cut(f"{own}_cut", net.data, 1, number, length - 3 * number)
        scaled = net.unary(kinds[number % 5], f"{own}_curve", piece)
        squared = net.binary("Mul", f"{own}_scaled", scaled, piece)
        operator = reduces[number % 4]
        axes = {} if operator == "ReduceSum" else {"axes": [1]}
        more = [net.constant(f"{own}.axes", [1], int)] if operator == "ReduceSum" else []
        found.append(
            net.op(
                operator,
                f"{own}_{operator}",
                [squared, *more],
                (1, 1, net.shape(piece)[2]),
                keepdims=1,
                **axes,
            )
        )
    return net.linear("logits", net.join("all", 1, *found), 10)


def varied(net: Net) -> str:
    """A hundred small convolutions, no two alike: widths as a search over architectures leaves them."""
    x = net.data
    for number in range(100):
        kernel = (1, 3, 5)[number % 3]
        act = ("silu", "Relu", "hard_swish", "Sigmoid")[number % 4]
        x = net.norm_conv(f"conv{number}", x, 16 + (number * 7) % 80 + number // 20, kernel, act=act)
        if number in (30, 60):
            x = net.max_pool(f"pool{number}", x, kernel=2, stride=2)
    x = net.global_average_pool("pool", x)
    return net.linear("logits", net.reshape("flat", x, 1, net.channels(x)), 10)


UNROLLED = {
    network.name: network
    for network in (
        Network("deepcut", "186 steps of twelve dense layers", deepcut, (1, _WINDOW), tokens=178),
        Network("video", "five layers of 16 steps, an LSTM", video, (1, 16, 3, 32, 32)),
        Network("written-out", "an LSTM of 40 steps, written out", written_out, (40, 1, 24)),
        Network("wide", "200 small functions of as many shapes", wide, (1, 400, 16)),
        Network("varied", "100 small convolutions, no two alike", varied, (1, 3, 32, 32)),
    )
}

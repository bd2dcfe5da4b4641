"""Artificial spaces with the structure of VTA's knobs: tiles, contexts, an order; and a formula for the time.

The formula is made up to have the shape of such a machine: buffers that a tile must fit, a DMA engine that is
paid by the row and by the byte, products and epilogue in another queue; with contexts, both at once. No board
was measured.

Sizes are in blocks of 16 channels. A tile computes `co` blocks of `h` x `w` outputs and adds up `ci` input
blocks at a time; there are n = co_threads * h_threads contexts. With ih = (h - 1) * stride + kernel, and iw:

    a point fails unless   n * ci * ih * iw          <= 2048    (inputs)
                           n * co * ci * kernel^2    <= 1024    (weights)
                           n * co * h * w            <= 2048    (sums)
                           n * kernel^2 * co * h     <= 8192    (micro-operations)
                           h * co                    >= 4       (distance between writes of one sum)
                           co_threads and h_threads divide the number of tiles on their axes

    inputs   = 10 + 40 * ci * ih + 2 * ci * ih * iw               cycles to load a chunk's inputs
    weights  = 10 + 40 * co      + 32 * co * ci * kernel^2        cycles to load a chunk's weights
    products = 22 + kernel^2 * co * ci * h * w
    ending   = 4 * (12 + 2 * co * h * w)                          bias, shift, clip
    store    = 10 + 40 * co * h + 2 * co * h * w

A sum goes in `chunks` chunks. What does not change from one tile to the next is loaded once where one chunk
is all: weights if tiles of one channel follow one another (order `pixels`), inputs if those of one place do
(order `channels`). With n = 1 all is added up; else loading, computing and storing overlap, and the longest
counts, with one tile's others before and after it; more than two contexts cost 30 cycles each and tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import ceil, inf, log2
from typing import Any

from benchmarks.tuners.replay import Table

Knobs = Mapping[str, Any]
ORDERS = ("pixels", "channels")


@dataclass(frozen=True)
class Layer:
    """A convolution with square images and kernels; channels in blocks of 16."""

    size: int
    ci: int
    co: int
    kernel: int
    stride: int = 1
    threads: tuple[int, ...] = (1, 2)
    orders: tuple[str, ...] = ORDERS

    @property
    def name(self) -> str:
        """Such as 56x56x4-8k3s2."""
        return f"{self.size}x{self.size}x{self.ci}-{self.co}k{self.kernel}s{self.stride}"

    def table(self) -> Table:
        """Return the space, points in the order of their knobs' products."""
        knobs = {
            "h": _divisors(self.size),
            "w": _divisors(self.size),
            "ci": _divisors(self.ci),
            "co": _divisors(self.co),
            "co_threads": self.threads,
            "h_threads": self.threads,
            "order": self.orders,
        }
        rows = [dict(zip(knobs, values, strict=True)) for values in product(*knobs.values())]
        return Table(
            self.name, rows, [features(self, row) for row in rows], [cycles(self, row) / 1e5 for row in rows]
        )


LARGE = Layer(56, 16, 32, 1, 2, threads=(1, 2, 4))
"""34 560 points."""
# The ten convolutions of ResNet-18 that run on VTA, as the tutorial for it lists them.
RESNET_18 = (
    Layer(56, 4, 4, 3), Layer(28, 4, 8, 1, 2), Layer(28, 4, 8, 3, 2), Layer(28, 8, 8, 3),
    Layer(14, 8, 16, 1, 2), Layer(14, 8, 16, 3, 2), Layer(14, 16, 16, 3), Layer(7, 16, 32, 1, 2),
    Layer(7, 16, 32, 3, 2), Layer(7, 32, 32, 3),
)  # fmt: skip


def cycles(layer: Layer, knobs: Knobs) -> float:
    """Return how long a point takes; infinite: it fails."""
    h, w, ci, co = (knobs[name] for name in ("h", "w", "ci", "co"))
    n, taps = knobs["co_threads"] * knobs["h_threads"], layer.kernel**2
    ih, iw = ((extent - 1) * layer.stride + layer.kernel for extent in (h, w))
    rows, columns, blocks, chunks = layer.size // h, layer.size // w, layer.co // co, layer.ci // ci
    fits = (
        n * ci * ih * iw <= 2048
        and n * co * ci * taps <= 1024
        and n * co * h * w <= 2048
        and n * taps * co * h <= 8192
        and h * co >= 4
        and blocks % knobs["co_threads"] == 0
        and rows % knobs["h_threads"] == 0
    )
    if not fits:
        return inf
    tiles = rows * columns * blocks
    inputs = 10 + 40 * ci * ih + 2 * ci * ih * iw
    weights = 10 + 40 * co + 32 * co * ci * taps
    products = 22 + taps * co * ci * h * w
    ending = 4 * (12 + 2 * co * h * w)
    store = 10 + 40 * co * h + 2 * co * h * w
    kept = chunks == 1
    often_inputs = rows * columns if kept and knobs["order"] == "channels" else tiles * chunks
    often_weights = blocks if kept and knobs["order"] == "pixels" else tiles * chunks
    load = often_inputs * inputs + often_weights * weights
    compute = tiles * (chunks * products + ending)
    if n == 1:
        return load + compute + tiles * store
    longest = max(load, compute, tiles * store)
    return longest + inputs + weights + products + ending + store + 30 * max(0, n - 2) * tiles


def features(layer: Layer, knobs: Knobs) -> list[float]:
    """Return what a cost model may learn from: the layer, the tile, and how they go together."""
    h, w, ci, co = (knobs[name] for name in ("h", "w", "ci", "co"))
    n, taps = knobs["co_threads"] * knobs["h_threads"], layer.kernel**2
    ih, iw = ((extent - 1) * layer.stride + layer.kernel for extent in (h, w))
    counts = [
        layer.size, layer.ci, layer.co, layer.kernel, layer.stride,
        h, w, ci, co, n, knobs["co_threads"],
        layer.size // h, layer.size // w, layer.co // co, layer.ci // ci,
        n * ci * ih * iw, n * co * ci * taps, n * co * h * w, n * taps * co * h, h * co,
        ceil(layer.co / co / knobs["co_threads"]), ceil(layer.size / h / knobs["h_threads"]),
        taps * co * ci * h * w, ci * ih, ci * ih * iw,
    ]  # fmt: skip
    ratio = taps * co * h * w / (co * taps * 32 + ih * iw * 2)  # products per cycle of loading
    return [*(log2(count) for count in counts), log2(ratio), float(knobs["order"] == "pixels")]


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]

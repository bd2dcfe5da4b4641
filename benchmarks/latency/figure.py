"""The distance of each layer to the machine's peak, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.latency.layers import Layer

_ROW, _BAR = 20, 13
_LEFT, _PLOT, _RIGHT = 250, 470, 120
_TOP, _BOTTOM = 66, 46
_STYLE = (
    "text { font: 12px sans-serif; fill: #222 } .title { font-size: 15px; font-weight: bold } "
    ".end { text-anchor: end } .middle { text-anchor: middle } .grid { stroke: #ddd } "
    ".bar { fill: #4477aa } .winograd { fill: #ddaa33 } "
    ".peak { stroke: #cc3311; stroke-width: 2 } .red { fill: #cc3311 } .gold { fill: #a87800 }"
)


def figure(title: str, layers: Sequence[Layer], peak_gflops: float) -> str:
    """Return a picture with one bar for each layer, against a line at the peak.

    Parameters
    ----------
    peak_gflops
        Of as many cores as the network ran on.
    """
    step = _step(max([peak_gflops, *(layer.gflops for layer in layers)]))
    top = step * math.ceil(max([peak_gflops, *(layer.gflops for layer in layers)]) / step)
    bottom = _TOP + _ROW * len(layers)
    width, height = _LEFT + _PLOT + _RIGHT, bottom + _BOTTOM

    def across(gflops: float) -> float:
        return round(_LEFT + _PLOT * gflops / top, 1)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text class="title" x="12" y="22">{escape(title)}</text>',
        f'<text x="{_LEFT + _PLOT + 8}" y="{_TOP - 8}">ms (share)</text>',
    ]
    for mark in range(round(top / step) + 1):
        x = across(mark * step)
        lines.append(f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>')
        lines.append(f'<text class="middle" x="{x}" y="{bottom + 16}">{mark * step:g}</text>')
    whole = sum(layer.ms for layer in layers) or 1.0
    for index, layer in enumerate(layers):
        y = _TOP + _ROW * index
        winograd = " winograd" if layer.rule == "winograd" else ""
        times = f" (x{layer.calls:g})" if layer.calls != 1 else ""
        lines += [
            f'<text class="end" x="{_LEFT - 8}" y="{y + 14}">{escape(layer.label + times)}</text>',
            f'<rect class="bar{winograd}" x="{_LEFT}" y="{y + 4}" width="{across(layer.gflops) - _LEFT:.1f}" '
            f'height="{_BAR}"/>',
            f'<text x="{_LEFT + _PLOT + 8}" y="{y + 14}">{layer.ms:.3f} ({layer.ms / whole:.0%})</text>',
        ]
    x = across(peak_gflops)
    lines += [
        f'<line class="peak" x1="{x}" y1="{_TOP - 4}" x2="{x}" y2="{bottom}"/>',
        f'<text class="end red" x="{x}" y="{_TOP - 8}">FMA peak {peak_gflops:.0f}</text>',
        f'<text class="middle" x="{_LEFT + _PLOT / 2}" y="{bottom + 36}">'
        "GFLOP/s of the plain algorithm; "
        '<tspan class="gold">yellow: winograd, which computes less and can pass the peak</tspan></text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _step(most: float) -> float:
    """Return the distance of the grid's lines: 1, 2 or 5 times a power of ten, about eight of them."""
    power = 10.0 ** math.floor(math.log10(most / 8))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= most / 8)

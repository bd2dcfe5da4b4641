"""Renders figures of matplotlib as SVG that takes the colours of its page, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Placeholder colours, which the page's style sheet replaces.
INK = "#010101"
FAINT = "#020202"
SERIES = tuple(f"#0300{number:02x}" for number in range(8))
_VARIABLES = {INK: "--ink", FAINT: "--faint"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES)
}
_WIDTH_IN = 8.4


@contextmanager
def figure(name: str, height_in: float) -> Iterator[tuple[Figure, list[str]]]:
    """Yield an empty figure, and a list to which its SVG is added at the end.

    Parameters
    ----------
    name
        Sets the ids within the SVG: figures of one page need different ones.
    height_in
        Height in inches of 72 CSS pixels.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a `$` in a name is a dollar
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": FAINT,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        **dict.fromkeys(
            ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
        ),
    }
    with mpl.rc_context(settings):
        made = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
        out: list[str] = []
        yield made, out
        made.patch.set_visible(False)
        for axes in made.axes:
            axes.patch.set_visible(False)
        stream = io.StringIO()
        made.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        out.append(_for_page(stream.getvalue()))


def _for_page(svg: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # these ids are the same in every figure, and unused
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg))
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg.strip()

"""Draws docs/pictures: what `make demo` printed, the way of a network and the rooms of the package, as SVG.

`python docs/draw.py` writes, `tests/test_pictures.py` compares.
"""

from __future__ import annotations

import io
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "pictures"

WAY = (
    ("models", "Relax module"),
    ("tasks", "spaces"),
    ("tuning", "records (SQLite)"),
    ("building", "library + manifest"),
    ("bundles", "the file"),
    ("boards", "edge-rt on it"),
    ("measuring", "verified + timed"),
    ("releases", "signed, for whom"),
    ("rollouts", "tested by each board"),
)
"""The rooms that a network goes through, and what it is or has behind each."""

IN_A_ROW = 5
WIDTH = 740

STYLE = """
text { font: 14px sans-serif; fill: #1c2430; text-anchor: middle }
.small { font-size: 11px; fill: #46525f }
.paper { fill: #ffffff }
.box { fill: #f0f2f5; stroke: #98a4b3 }
.step { fill: #d7e7fb; stroke: #3f72af }
.arrow { stroke: #5b6b7f; stroke-width: 1.5; fill: none; marker-end: url(#head) }
.head { fill: #5b6b7f }
@media (prefers-color-scheme: dark) {
text { fill: #e8edf3 }
.small { fill: #b5c0cd }
.paper { fill: #171b22 }
.box { fill: #252c36; stroke: #5f6c7c }
.step { fill: #1f4068; stroke: #6ea3e0 }
.arrow { stroke: #9aa8b8 }
.head { fill: #9aa8b8 }
}
"""
"""Each picture brings its own paper: it is readable on a page of either colour."""

TERMINAL = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
 role="img" aria-labelledby="title desc">
<title id="title">The end of make demo</title>
<desc id="desc">DESCRIPTION</desc>
<style>
.{unique_id}-matrix {{
font: {char_height}px "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace
}}
.{unique_id}-title {{ font: bold 18px sans-serif }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""rich's frame for a terminal, without the font that its own takes from a server."""

NIGHT = TerminalTheme((23, 27, 34), (225, 230, 237), [(0, 0, 0)] * 8, [(90, 90, 90)] * 8)


def demo() -> str:
    """Return a terminal with the last lines of demo.txt, from the build on."""
    printed = (FOLDER / "demo.txt").read_text().splitlines()
    shown = printed[printed.index("building for rk3399-emulated") :]
    console = Console(record=True, width=max(map(len, shown)), file=io.StringIO())
    console.print(Text("$ make demo", style="bold"), Text("…", style="dim"), sep="\n")
    for line in shown:
        console.print(Text(line))
    frame = TERMINAL.replace("DESCRIPTION", escape(" ".join(shown)))
    drawn = console.export_svg(title="make demo", theme=NIGHT, code_format=frame, unique_id="demo")
    without_ends = re.sub(r"<text [^>]*>\n</text>", "\n", drawn)  # rich draws the ends of lines, too
    return "\n".join(line.rstrip() for line in without_ends.splitlines()) + "\n"


def way() -> str:
    """Return the steps from a model to the boards in the field, in rows."""
    wide, high, across, down = 128, 48, 22, 40
    parts = []
    for number, (name, result) in enumerate(WAY):
        row, column = divmod(number, IN_A_ROW)
        x, y = 6 + column * (wide + across), 6 + row * (high + down)
        parts.append(_box(x, y, wide, high, "step"))
        parts.append(f'<text x="{x + wide / 2}" y="{y + 21}">{name}</text>')
        parts.append(f'<text class="small" x="{x + wide / 2}" y="{y + 38}">{escape(result)}</text>')
        if column:
            parts.append(_arrow(f"M{x - across + 2} {y + high / 2}H{x - 3}"))
        elif row:
            last = 6 + (IN_A_ROW - 1) * (wide + across) + wide / 2
            parts.append(_arrow(f"M{last} {y - down + 2}v{down / 2 - 2}H{x + wide / 2}V{y - 3}"))
    rows = -(-len(WAY) // IN_A_ROW)
    steps = "; ".join(f"{name}: {result}" for name, result in WAY)
    return _drawing(
        "From a model to boards in the field", f"Steps in order. {steps}.", rows * (high + down) - 28, parts
    )


def rooms() -> str:
    """Return the layers of the package from the top down, with the steps of the way in another colour."""
    layers = house()
    steps = {name for name, _ in WAY}
    left, high, gap = 44, 26, 5
    parts = [_arrow(f"M22 6V{len(layers) * (high + gap) - gap + 2}")]
    middle = len(layers) * (high + gap) / 2
    parts.append(f'<text class="small" transform="translate(15 {middle}) rotate(-90)">imports</text>')
    for number, names in enumerate(layers):
        wide = (WIDTH - 6 - left - gap * (len(names) - 1)) / len(names)
        for place, name in enumerate(names):
            x, y = left + place * (wide + gap), 6 + number * (high + gap)
            parts.append(_box(x, y, wide, high, "step" if name in steps else "box"))
            parts.append(f'<text x="{x + wide / 2}" y="{y + 18}">{name}</text>')
    told = "; ".join(" and ".join(names) for names in layers)
    about = f"Layers from the top down; each imports only what is below it: {told}."
    return _drawing("The rooms of the package", about, len(layers) * (high + gap) + 7, parts)


def house() -> list[list[str]]:
    """Return the layers that import-linter checks, from the top down, as names of rooms."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(
        each["layers"] for each in contracts if each["type"] == "layers" and "containers" not in each
    )
    return [[name.removeprefix("toolchain.") for name in layer.split(" | ")] for layer in layers]


def _drawing(title: str, about: str, high: float, parts: Sequence[str]) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high:g}"',
        ' role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(about)}</desc>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"',
        ' orient="auto" markerUnits="userSpaceOnUse"><path class="head" d="M0 0L8 4L0 8Z"/></marker></defs>',
        f'<rect class="paper" width="{WIDTH}" height="{high:g}" rx="6"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(x: float, y: float, wide: float, high: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="5"/>'


def _arrow(path: str) -> str:
    return f'<path class="arrow" d="{path}"/>'


PICTURES = {"demo.svg": demo, "rooms.svg": rooms, "way.svg": way}


def main() -> None:
    """Write every picture."""
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw())


if __name__ == "__main__":
    main()

"""Draws the figures of reports: SVG that takes the colours and the width of its page.

Places across are percentages and places down are CSS pixels, so text keeps its size on a phone. Names of axes
and legends are HTML around the SVG, which a browser wraps. `page.html.j2` has the style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Self
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

INK = "var(--ink)"
SERIES = tuple(f"var(--series-{number})" for number in range(8))
REST = "var(--faint)"  # of series without a colour of their own

_NAME_PX = 17  # height of a row's name
BAR_PX = 12
_GAP_PX = 10  # below a row
_NAME = 40  # characters of a row's name
_TICK_PX = 20  # height of the labels below the axis across
_DIGIT_PX = 7.7  # width of a character at the style sheet's size, in the widest common font
_MARKS = {"cross": "M-3.5-3.5L3.5 3.5M-3.5 3.5L3.5-3.5", "triangle": "M0-3.5L3.5 3L-3.5 3Z"}
_DECADE = ((1.0, (1, 1.5, 2, 3, 4, 5, 7)), (2.0, (1, 2, 5)))  # below so many decades: ticks within each


@dataclass(frozen=True)
class Axis:
    """Values from one side of a plot to the other.

    Attributes
    ----------
    ticks
        Values with their labels.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    is_logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return how far along the axis a value is, from 0 to 1; values beyond an end are drawn at it."""
        low, high = self.low, self.high
        if self.is_logarithmic:
            low, high, value = log10(low), log10(high), log10(max(value, low))
        return min(1.0, max(0.0, (value - low) / (high - low)))


def linear(low: float, high: float, *, most: int = 8, integers: bool = False) -> Axis:
    """Return an axis with at most about `most` round ticks; `high` must be above `low`.

    Parameters
    ----------
    integers
        Whether ticks are whole numbers.
    """
    rough = 0.9 * (high - low) / most
    scale = 10.0 ** floor(log10(rough))
    factors = (1, 2, 5, 10) if integers else (1, 2, 2.5, 5, 10)
    factor = next(factor for factor in factors if factor * scale >= rough)
    step = max(1.0, factor * scale) if integers else factor * scale
    digits = max(0, (factor == 2.5) - floor(log10(step) + 1e-9))
    places = range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)
    return Axis(low, high, tuple((place * step, f"{place * step:.{digits}f}") for place in places))


def logarithmic(low: float, high: float) -> Axis:
    """Return an axis of positive values with a tick for each decade, or more if there are few decades."""
    decades = log10(high / low)
    factors = next((factors for most, factors in _DECADE if decades < most), (1,))
    every = ceil(decades / 8)
    values = [f * 10.0**n for n in range(floor(log10(low)), ceil(log10(high)) + 1, every) for f in factors]
    return Axis(low, high, tuple((v, f"{v:g}") for v in values if low <= v <= high), is_logarithmic=True)


ROWS = Axis(0.0, 1.0, ())  # the axis upwards of a plot that has rows with names


class Figure:
    """One figure, to which plots are added.

    Parameters
    ----------
    name
        Begins the ids within the SVG: figures of one page need different ones.
    title, description
        What is drawn, and what it shows, in words for screen readers.
    height_px
        Height of the plots without the labels of their axes.
    above
        Name of the axis upwards.
    behind
        Length in characters of the longest text behind a bar.
    """

    def __init__(
        self, name: str, title: str, description: str, height_px: float, *, above: str = "", behind: int = 0
    ) -> None:
        self.height_px = height_px
        self.name, self._above, self._behind = name, above, behind
        self._plots: list[Plot] = []
        self._legend: list[tuple[str, str, str]] = []
        spoken = {"aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-desc"}
        self.svg = Element("svg", {"role": "img"} | spoken)
        SubElement(self.svg, "title", {"id": f"{name}-title"}).text = title
        SubElement(self.svg, "desc", {"id": f"{name}-desc"}).text = description
        defs = SubElement(self.svg, "defs")
        for mark, path in _MARKS.items():
            SubElement(defs, "path", {"id": f"{name}-{mark}", "d": path})

    def plot(self, x: Axis, y: Axis, below: str, left: float = 0.0, width: float = 1.0) -> Plot:
        """Add a plot with its grid; one that is not at the left edge has `y` in common with that.

        Parameters
        ----------
        below
            Name of the axis across.
        left, width
            Where the plot is, as shares of the figure's width.
        """
        plot = Plot(self, x, y, below, left, width)
        self._plots.append(plot)
        plot.draw_grid()
        return plot

    def explain(self, kind: str, colour: str, text: str) -> None:
        """Add a line to the legend; `kind`: line, dashed, dot, bar or `bar pale`."""
        self._legend.append((kind, colour, text))

    def html(self) -> str:
        """Return the figure as HTML; equal figures give equal text."""
        upwards = [label for plot in self._plots for _, label in plot.y.ticks]
        across = [label for _, label in self._plots[0].x.ticks + self._plots[-1].x.ticks]
        half_px = _DIGIT_PX * max(map(len, across), default=0) / 2  # a label sticks out at both ends
        left_px = ceil(max(half_px, _DIGIT_PX * max(map(len, upwards), default=0) + 10))
        right_px = ceil(max(half_px, _DIGIT_PX * self._behind + 8))
        height = f"height:{self.height_px + 8 + _TICK_PX:g}px"
        self.svg.set("style", f"{height};padding:8px {right_px}px {_TICK_PX}px {left_px}px")
        figure = Element("figure")
        if self._above:
            SubElement(figure, "p").text = self._above
        figure.append(self.svg)
        below = SubElement(figure, "div", {"style": f"padding:0 {right_px}px 0 {left_px}px"})
        end = 0.0
        for plot in self._plots:
            place = f"margin-left:{_percent(plot.left - end)};width:{_percent(plot.width)}"
            SubElement(below, "p", {"style": place}).text = plot.below
            end = plot.left + plot.width
        if self._legend:
            legend = SubElement(figure, "ul")
            for kind, colour, text in self._legend:
                SubElement(legend, "li", {"class": kind, "style": f"--mark:{colour}"}).text = text
        return ElementTree.tostring(figure, encoding="unicode")


@dataclass(frozen=True)
class Plot:
    """A pair of axes and the drawing between them."""

    figure: Figure
    x: Axis
    y: Axis
    below: str
    left: float
    width: float

    def draw_grid(self) -> None:
        """Draw the grid, the axes and their labels."""
        bottom = self.figure.height_px
        grid, texts = self._group({"class": "grid"}), self._group({"class": "ticks"})
        for place, (value, label) in enumerate(self.x.ticks):
            x = self._across(value)
            _line(grid, x, "0", x, _px(bottom + 4))
            text = SubElement(texts, "text", {"x": x, "y": _px(bottom + 17), "text-anchor": "middle"})
            text.text = label
            if place % 2:
                text.set("class", "odd")  # narrow pages hide them
        left, right = _percent(self.left), _percent(self.left + self.width)
        for value, label in self.y.ticks:
            y = self._down(value)
            _line(grid, left, y, right, y)
            if not self.left:
                place_of = {"x": left, "y": y, "dx": "-8", "dy": ".35em", "text-anchor": "end"}
                SubElement(texts, "text", place_of).text = label
        axes = self._group({"class": "axes"})
        _line(axes, left, "0", left, _px(bottom))
        _line(axes, left, _px(bottom), right, _px(bottom))

    def dots(self, points: Iterable[tuple[float, float]], colour: str, opacity: float = 1.0) -> Self:
        """Draw a dot at each point."""
        group = self._group({"fill": colour, "fill-opacity": f"{opacity:g}"})
        for x, y in points:
            SubElement(group, "circle", {"cx": self._across(x), "cy": self._down(y), "r": "2.6"})
        return self

    def marks(self, kind: str, points: Iterable[tuple[float, float]], colour: str) -> Self:
        """Draw a `cross` or `triangle` at each point."""
        style = {"stroke": colour, "stroke-width": "1.4", "fill": colour if kind == "triangle" else "none"}
        group = self._group(style)
        for x, y in points:
            place = {"x": self._across(x), "y": self._down(y)}
            SubElement(group, "use", {"href": f"#{self.figure.name}-{kind}"} | place)
        return self

    def steps(self, points: Sequence[tuple[float, float]], colour: str) -> Self:
        """Draw a line that keeps each point's height until the next one."""
        group = self._group({"stroke": colour, "stroke-width": "2", "stroke-linecap": "round"})
        start, height = points[0]
        for x, y in points[1:]:
            if y != height:
                _line(group, self._across(start), self._down(height), self._across(x), self._down(height))
                _line(group, self._across(x), self._down(height), self._across(x), self._down(y))
                start, height = x, y
        _line(group, self._across(start), self._down(height), self._across(points[-1][0]), self._down(height))
        return self

    def line(self, start: tuple[float, float], end: tuple[float, float], *, dashed: bool = True) -> Self:
        """Draw a straight line in the colour of text."""
        group = self._group({"stroke": INK} | ({"stroke-dasharray": "5 4"} if dashed else {}))
        _line(group, self._across(start[0]), self._down(start[1]), self._across(end[0]), self._down(end[1]))
        return self

    def block(self, x: tuple[float, float], y: tuple[float, float], colour: str) -> Self:
        """Draw a bar between two values on each axis."""
        top, bottom = self._down(y[1]), self._down(y[0])
        size = {"y": top, "height": _px(max(0.5, float(bottom) - float(top) - 0.5))}
        return self._rectangle(x, size | {"fill": colour, "fill-opacity": ".6"})

    def row(self, top_px: float, name: str) -> Self:
        """Write a row's name above its bars; a long one is cut and complete in its tooltip."""
        place = {"class": "name", "dx": "4", "y": _px(top_px + _NAME_PX - 5)}
        text = SubElement(self.figure.svg, "text", place)
        text.text = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
        if text.text != name:
            SubElement(text, "title").text = name
        return self

    def bar(self, top_px: float, x: tuple[float, float], colour: str, opacity: float = 1.0) -> Self:
        """Draw a bar of a row; a second one begins `BAR_PX` below."""
        size = {"y": _px(top_px + _NAME_PX), "height": f"{BAR_PX}"}
        return self._rectangle(x, size | {"fill": colour, "fill-opacity": f"{opacity:.3g}"})

    def behind(self, top_px: float, x: float, text: str, lanes: int = 1) -> Self:
        """Write a text behind a row's bars, which end at `x`."""
        middle = _px(top_px + _NAME_PX + lanes * BAR_PX / 2)
        place = {"class": "behind", "x": self._across(x), "dx": "5", "y": middle, "dy": ".35em"}
        SubElement(self.figure.svg, "text", place).text = text
        return self

    def box(self, top_px: float, at: Sequence[float], rings: Iterable[float]) -> Self:
        """Draw a row's box; `at` ascends from whisker over quartile, median, quartile to whisker."""
        low, first, middle, third, high = map(self._across, at)
        top, centre, bottom = (_px(top_px + _NAME_PX + part * BAR_PX) for part in (0, 0.5, 1))
        style = {"stroke": SERIES[0], "stroke-width": "1.4", "fill": "none"}
        self._rectangle((at[1], at[3]), {"y": top, "height": f"{BAR_PX}"} | style)
        group = self._group(style)
        for x, end in ((low, first), (high, third)):
            _line(group, x, centre, end, centre)
            _line(group, x, top, x, bottom)
        _line(self._group({"stroke": SERIES[0], "stroke-width": "3"}), middle, top, middle, bottom)
        group = self._group({"stroke": SERIES[1], "fill": "none"})
        for value in rings:
            SubElement(group, "circle", {"cx": self._across(value), "cy": centre, "r": "2.6"})
        return self

    def _group(self, style: dict[str, str]) -> Element:
        return SubElement(self.figure.svg, "g", style)

    def _across(self, value: float) -> str:
        return _percent(self.left + self.width * self.x.share(value))

    def _rectangle(self, x: tuple[float, float], style: dict[str, str]) -> Self:
        width = _percent(self.width * (self.x.share(x[1]) - self.x.share(x[0])))
        SubElement(self.figure.svg, "rect", {"x": self._across(x[0]), "width": width} | style)
        return self

    def _down(self, value: float) -> str:
        return _px(self.figure.height_px * (1 - self.y.share(value)))


def rows_px(rows: int, lanes: int = 1) -> tuple[float, list[float]]:
    """Return the height of a plot of rows, and the top of each row."""
    row_px = _NAME_PX + lanes * BAR_PX + _GAP_PX
    return float(rows * row_px), [float(row * row_px) for row in range(rows)]


def _line(parent: Element, x1: str, y1: str, x2: str, y2: str) -> None:
    SubElement(parent, "line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2})


def _percent(share: float) -> str:
    return f"{round(100 * share, 2):g}%"


def _px(length: float) -> str:
    return f"{round(length, 1):g}"

"""Shows times and amounts of work with the unit that fits their size, and numbers with their nouns.

The terminal, reports and the page of `toolchain ui` (by its script) show them alike; JSON keeps the units
that it documents.
"""

from __future__ import annotations

from math import isfinite

_DIGITS = 4  # significant ones
_TIMES = (("s", 1e3), ("ms", 1.0), ("µs", 1e-3), ("ns", 1e-6))
_WORK = (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3))

UNKNOWN = "–"  # noqa: RUF001 (a dash in place of a number)


def shown_ms(ms: float | None) -> str:
    """Return a time in milliseconds with four significant digits and its unit, such as `12.34 µs`."""
    if ms is None or not isfinite(ms):
        return UNKNOWN
    return _shown(ms, _TIMES) if ms else "0 ms"


def shown_flops(flops: float | None) -> str:
    """Return a number of floating-point operations with its unit, such as `1.824 GFLOP`."""
    if flops is None or not isfinite(flops):
        return UNKNOWN
    return _shown(flops, _WORK) if abs(_rounded(flops)) >= _WORK[-1][1] else f"{flops:.0f} FLOP"


def shown_gflops(gflops: float | None) -> str:
    """Return a speed in 1e9 operations per second with its unit, such as `27.04 MFLOP/s`."""
    return UNKNOWN if gflops is None or not isfinite(gflops) else f"{shown_flops(gflops * 1e9)}/s"


def time_unit(ms: float) -> tuple[str, float]:
    """Return the unit in which a time is shown, and its length in milliseconds."""
    return _unit(ms, _TIMES) if ms else ("ms", 1.0)


def _shown(value: float, units: tuple[tuple[str, float], ...]) -> str:
    name, size = _unit(value, units)
    number = _rounded(value / size)
    whole = len(str(int(abs(number))))
    return f"{number:.{max(0, _DIGITS - whole)}f} {name}"


def _unit(value: float, units: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    return next((unit for unit in units if abs(_rounded(value / unit[1])) >= 1.0), units[-1])


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def counted(number: float, thing: str, things: str | None = None, form: str = "") -> str:
    """Return a number with its noun, in the plural unless the number is shown as 1.

    Parameters
    ----------
    thing, things
        The noun in the singular, which may have words before it (`more board`), and in the plural; default:
        with an s.
    form
        Format of the number, such as `,` or `.3g`.
    """
    shown = f"{number:{form}}"
    return f"{shown} {thing if shown == '1' else things or f'{thing}s'}"
